package render

import (
	"bytes"
	"fmt"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"
)

// set does what Helm's --set key=value does.
func set(values map[string]any, key, value string) error {
	if err := strvals.ParseInto(key+"="+value, values); err != nil {
		return fmt.Errorf("override value %q: %w", key, err)
	}
	return nil
}

// parseValues reads a values file, of which as in Helm later documents go over earlier ones; one without content has no values.
func parseValues(name string, data []byte) (map[string]any, error) {
	values, err := loader.LoadValues(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, yamlText(err))
	}
	return values, nil
}
