// Reads the JSON of a dashboard and says what Grafana's published schema does not allow: fields that it does not know, fields that
// are missing, and values of a wrong type, also in the options of panels and in the queries.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	if err := check(os.Args[1]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func check(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	kinds := cog.NewRuntime()
	kinds.RegisterDataqueryVariant(prometheus.VariantConfig())
	kinds.RegisterPanelcfgVariant(stat.VariantConfig())
	kinds.RegisterPanelcfgVariant(timeseries.VariantConfig())
	var board dashboard.Dashboard
	// Where nothing is wrong, this error has no text.
	if err := board.UnmarshalJSONStrict(text); err != nil && err.Error() != "" {
		return err
	}
	return board.Validate()
}
