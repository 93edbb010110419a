package domain

import "strings"

// AccountNamespace is where the ServiceAccount is in a member cluster by which Drover works there, unless who makes it says another one;
// AgentNamespace is where the agent is installed.
const (
	AccountNamespace = "drover"
	AgentNamespace   = "drover-monitor"
)

// IsOwnNamespace says whether a namespace of a member cluster is one that Drover has for itself, or may have: who has rights there may
// have them of Drover's ServiceAccounts.
func IsOwnNamespace(name string) bool {
	return name == AccountNamespace || strings.HasPrefix(name, AccountNamespace+"-")
}

// tenantNamespace begins the namespaces of tenants.
const tenantNamespace = "tenant-"

// TenantOf is the key of the tenant that a namespace is for, if there is such a tenant; false for a namespace that is no tenant's.
func TenantOf(namespace string) (tenant Key, ok bool) {
	name, ok := strings.CutPrefix(namespace, tenantNamespace)
	if !ok || !IsTenantName(name) {
		return "", false
	}
	return TenantKey(name), true
}
