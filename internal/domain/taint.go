package domain

// Taint keeps pods from a node that do not tolerate it, as Kubernetes has it.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// String is the taint as kubectl writes it: key=value:NoSchedule.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

// Bars says whether it keeps pods from being put on the node, and does not just have others come first.
func (t Taint) Bars() bool { return t.Effect == "NoSchedule" || t.Effect == "NoExecute" }

// Toleration is one of a pod, as Kubernetes has it.
type Toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"` // Equal when missing, or Exists
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"` // "" is any
}

// Tolerates says whether a pod with it may be put on a node with the taint, as the scheduler decides. Operators that this does
// not know tolerate nothing.
func (t Toleration) Tolerates(taint Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "Exists":
		return true
	case "", "Equal":
		return t.Key != "" && t.Value == taint.Value
	default:
		return false
	}
}
