package render

import (
	"fmt"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/strvals"
)

// set does what Helm's --set key=value does.
func set(values map[string]any, key, value string) error {
	if err := strvals.ParseInto(key+"="+value, values); err != nil {
		return fmt.Errorf("override value %q: %w", key, err)
	}
	return nil
}

// parseValues reads a values file; one without content has no values.
func parseValues(name string, data []byte) (map[string]any, error) {
	values, err := common.ReadValues(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, yamlText(err))
	}
	return values, nil
}
