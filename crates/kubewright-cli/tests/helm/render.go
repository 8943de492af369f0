// Renders the chart of a project with the engine of Helm, text/template, and the functions that the
// chart uses. Arguments: the folder of the chart, and the values as JSON.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"
)

type files struct{ folder string }

// Get returns an empty text if there is no such file, as in Helm.
func (f files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(f.folder, name))
	if err != nil {
		return ""
	}
	return string(text)
}

func indent(spaces int, text string) string {
	pad := strings.Repeat(" ", spaces)
	return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
}

func main() {
	folder := os.Args[1]
	var values map[string]interface{}
	must(json.Unmarshal([]byte(os.Args[2]), &values))
	functions := template.FuncMap{
		// JSON is YAML.
		"toYaml": func(value interface{}) (string, error) {
			text, err := json.Marshal(value)
			return string(text), err
		},
		"nindent": func(spaces int, text string) string { return "\n" + indent(spaces, text) },
		"replace": func(old, new, text string) string { return strings.ReplaceAll(text, old, new) },
		"default": func(fallback, value interface{}) interface{} {
			if value == nil || value == "" {
				return fallback
			}
			return value
		},
		"splitList": func(separator, text string) []string { return strings.Split(text, separator) },
	}
	context := map[string]interface{}{
		"Values":  values,
		"Release": map[string]string{"Name": "mine", "Namespace": "elsewhere"},
		"Chart":   map[string]string{"Name": "chart", "AppVersion": "0.1.0"},
		"Files":   files{folder},
	}
	names, err := filepath.Glob(filepath.Join(folder, "templates", "*.yaml"))
	must(err)
	sort.Strings(names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		must(err)
		parsed, err := template.New(filepath.Base(name)).Funcs(functions).Option("missingkey=error").Parse(string(text))
		must(err)
		var out bytes.Buffer
		must(parsed.Execute(&out, context))
		fmt.Printf("---\n%s\n", out.String())
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
