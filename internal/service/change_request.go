package service

// RollbackRequest is what a rollback is asked with, in EMCO's form: the revision is a string.
type RollbackRequest struct {
	Metadata RequestMetadata `json:"metadata" api:"required"`
	Spec     RollbackSpec    `json:"spec" api:"required"`
}

// RollbackSpec names the revision.
type RollbackSpec struct {
	Revision string `json:"revision" api:"required"` // the number of the revision, as a string
}

// MigrateRequest is what a migrate is asked with.
type MigrateRequest struct {
	Metadata RequestMetadata `json:"metadata" api:"required"`
	Spec     MigrateSpec     `json:"spec" api:"required"`
}

// MigrateSpec names the group that takes over.
type MigrateSpec struct {
	TargetCompositeAppVersion   string `json:"targetCompositeAppVersion" api:"required"`   // of the composite app, with the other group
	TargetDeploymentIntentGroup string `json:"targetDeploymentIntentGroup" api:"required"` // the other group; it must be approved
}

// RequestMetadata is that of a request that has no name; EMCO's command sends an empty one.
type RequestMetadata struct {
	Name        string `json:"name,omitempty"`        // may be left out
	Description string `json:"description,omitempty"` // for people
}
