package restored

// AwaitBy is Await by another clock.
var AwaitBy = await
