// Command schema prints what upstream's Go types say about the fields of the kinds that we serve: JSON names,
// protobuf numbers, merge keys and who may own what in server-side apply. `make schema` keeps it for the API server.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// Kinds by group and version. Their lists come with them.
var served = map[string][]string{
	"v1": {
		"Pod", "PersistentVolumeClaim", "PersistentVolume", "Node", "Namespace", "Secret", "ConfigMap", "ServiceAccount",
		"Service", "Endpoints", "Event", "Binding", "ReplicationController", "LimitRange", "ResourceQuota", "PodTemplate",
	},
	"apps/v1":                      {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ControllerRevision"},
	"batch/v1":                     {"Job", "CronJob"},
	"policy/v1":                    {"PodDisruptionBudget", "Eviction"},
	"scheduling.k8s.io/v1":         {"PriorityClass"},
	"storage.k8s.io/v1":            {"StorageClass", "CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment", "VolumeAttributesClass"},
	"rbac.authorization.k8s.io/v1": {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"},
	"coordination.k8s.io/v1":       {"Lease"},
	"events.k8s.io/v1":             {"Event"},
	"discovery.k8s.io/v1":          {"EndpointSlice"},
	"autoscaling/v1":               {"Scale"},
	"autoscaling/v2":               {"HorizontalPodAutoscaler"},
	"node.k8s.io/v1":               {"RuntimeClass"},
	"resource.k8s.io/v1":           {"ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass"},
	"authentication.k8s.io/v1":     {"TokenReview", "TokenRequest", "SelfSubjectReview"},
	"authorization.k8s.io/v1":      {"SubjectAccessReview", "SelfSubjectAccessReview", "LocalSubjectAccessReview", "SelfSubjectRulesReview"},
}

type field struct {
	Name string `json:"name,omitempty"`
	// The number in protobuf's encoding; zero means that protobuf does not carry it.
	Number int    `json:"number,omitempty"`
	Type   string `json:"type"`
	// The fields of the type stand among those of its owner in JSON, while protobuf nests them.
	Inline bool `json:"inline,omitempty"`
	// An empty value is left out of JSON.
	OmitEmpty bool `json:"omitEmpty,omitempty"`
	// An empty struct or time is left out as well.
	OmitZero bool `json:"omitZero,omitempty"`
	// What Go calls the type in its error messages, where the shape alone does not say it.
	Go string `json:"go,omitempty"`
	// Presence counts, even with an empty value.
	Pointer bool `json:"pointer,omitempty"`
	// Strategic merge patch.
	Strategy string `json:"strategy,omitempty"`
	MergeKey string `json:"mergeKey,omitempty"`
	// Server-side apply: `set`, `map` with keys, `atomic`, or `granular` where the type alone would be atomic.
	Ownership string   `json:"ownership,omitempty"`
	Keys      []string `json:"keys,omitempty"`
}

type output struct {
	Version string             `json:"version"`
	Kinds   map[string]string  `json:"kinds"`
	Types   map[string][]field `json:"types"`
	Atomic  []string           `json:"atomic"`
}

func main() {
	out := output{Version: version("k8s.io/api"), Kinds: map[string]string{}, Types: map[string][]field{}}
	rules := applySchema()
	for groupVersion, kinds := range served {
		gv, err := schema.ParseGroupVersion(groupVersion)
		check(err)
		for _, kind := range kinds {
			for _, name := range []string{kind, kind + "List"} {
				known, ok := scheme.Scheme.AllKnownTypes()[gv.WithKind(name)]
				if !ok {
					continue
				}
				out.Kinds[groupVersion+" "+name] = walk(known, rules, out.Types)
			}
		}
	}
	for _, options := range []any{metav1.DeleteOptions{}, metav1.Status{}, metav1.PatchOptions{}} {
		walk(reflect.TypeOf(options), rules, out.Types)
	}
	for name, kind := range map[string]any{
		"PartialObjectMetadata": metav1.PartialObjectMetadata{}, "PartialObjectMetadataList": metav1.PartialObjectMetadataList{},
	} {
		out.Kinds["meta.k8s.io/v1 "+name] = walk(reflect.TypeOf(kind), rules, out.Types)
	}
	out.Kinds["v1 DeleteOptions"] = typeName(reflect.TypeOf(metav1.DeleteOptions{}))
	out.Kinds["v1 Status"] = typeName(reflect.TypeOf(metav1.Status{}))
	for name := range rules.atomic {
		if _, used := out.Types[name]; used {
			out.Atomic = append(out.Atomic, name)
		}
	}
	print(out)
}

// One type per line, in order, so that a new version shows as a readable difference.
func print(out output) {
	line := func(value any) string {
		text, err := json.Marshal(value)
		check(err)
		return string(text)
	}
	fmt.Printf("{\"version\": %s,\n\"kinds\": %s,\n\"atomic\": %s,\n\"types\": {\n", line(out.Version), line(out.Kinds), line(slices.Sorted(slices.Values(out.Atomic))))
	names := slices.Sorted(maps.Keys(out.Types))
	for i, name := range names {
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		fmt.Printf("%s: %s%s\n", line(name), line(out.Types[name]), comma)
	}
	fmt.Println("}}")
}

// The name that OpenAPI and server-side apply use for a Go type.
func typeName(t reflect.Type) string {
	path := strings.Replace(t.PkgPath(), "k8s.io", "io.k8s", 1)
	return strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

// Types with an encoding of their own.
var special = map[reflect.Type]string{
	reflect.TypeOf(resource.Quantity{}):    "quantity",
	reflect.TypeOf(intstr.IntOrString{}):   "intOrString",
	reflect.TypeOf(metav1.Time{}):          "time",
	reflect.TypeOf(metav1.MicroTime{}):     "microTime",
	reflect.TypeOf(metav1.Duration{}):      "duration",
	reflect.TypeOf(metav1.FieldsV1{}):      "fieldsV1",
	reflect.TypeOf(runtime.RawExtension{}): "rawExtension",
}

func describe(t reflect.Type, rules apply, types map[string][]field) string {
	if name, ok := special[t]; ok {
		return name
	}
	switch t.Kind() {
	case reflect.Pointer:
		return describe(t.Elem(), rules, types)
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float64:
		return t.Kind().String()
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		// A named list is a message with its items in field 1.
		if t.Name() != "" && protoNamesLists[t.Name()] {
			return "[message]" + describe(t.Elem(), rules, types)
		}
		return "[]" + describe(t.Elem(), rules, types)
	case reflect.Map:
		return "{}" + describe(t.Elem(), rules, types)
	case reflect.Struct:
		return "@" + walk(t, rules, types)
	}
	log.Fatalf("no encoding for %s", t)
	return ""
}

// ExtraValue and Verbs-like types that protobuf wraps.
var protoNamesLists = map[string]bool{"ExtraValue": true}

func walk(t reflect.Type, rules apply, types map[string][]field) string {
	name := typeName(t)
	if _, seen := types[name]; seen {
		return name
	}
	types[name] = nil
	fields := []field{}
	for i := range t.NumField() {
		goField := t.Field(i)
		jsonName, options, _ := strings.Cut(goField.Tag.Get("json"), ",")
		if jsonName == "-" || (jsonName == "" && goField.Name == "TypeMeta") {
			continue
		}
		one := field{
			Name:      jsonName,
			Number:    number(goField.Tag.Get("protobuf")),
			Type:      describe(goField.Type, rules, types),
			Inline:    strings.Contains(options, "inline"),
			OmitEmpty: strings.Contains(options, "omitempty"),
			OmitZero:  strings.Contains(options, "omitzero"),
			Go:        namedScalar(goField.Type),
			Pointer:   goField.Type.Kind() == reflect.Pointer,
			Strategy:  goField.Tag.Get("patchStrategy"),
			MergeKey:  goField.Tag.Get("patchMergeKey"),
		}
		if rule, ok := rules.fields[name+"/"+jsonName]; ok {
			one.Ownership, one.Keys = rule.ownership, rule.keys
		}
		fields = append(fields, one)
	}
	types[name] = fields
	return name
}

// The name of a type that is a text, a number, a list or a map underneath, e.g. `v1.PullPolicy`.
func namedScalar(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && t.Name() == "" {
		if element := namedScalar(t.Elem()); element != "" {
			return "[]" + element
		}
	}
	if _, ok := special[t]; ok || t.Kind() == reflect.Struct || t.PkgPath() == "" {
		return ""
	}
	return t.String()
}

// `bytes,1,opt,name=metadata`
func number(tag string) int {
	parts := strings.Split(tag, ",")
	if len(parts) < 2 {
		return 0
	}
	n, err := strconv.Atoi(parts[1])
	check(err)
	return n
}

type rule struct {
	ownership string
	keys      []string
}

type apply struct {
	fields map[string]rule
	atomic map[string]bool
}

// What client-go's own schema for apply configurations says about lists and maps.
func applySchema() apply {
	text, err := os.ReadFile(filepath.Join(dir("k8s.io/client-go"), "applyconfigurations/internal/internal.go"))
	check(err)
	_, rest, _ := strings.Cut(string(text), "typed.YAMLObject(`")
	document, _, _ := strings.Cut(rest, "`")
	var parsed struct {
		Types []struct {
			Name string `json:"name"`
			Map  struct {
				Relationship string `json:"elementRelationship"`
				Fields       []struct {
					Name string `json:"name"`
					Type struct {
						List         *relation `json:"list"`
						Map          *relation `json:"map"`
						Relationship string    `json:"elementRelationship"`
					} `json:"type"`
				} `json:"fields"`
			} `json:"map"`
		} `json:"types"`
	}
	check(yaml.Unmarshal([]byte(document), &parsed))
	rules := apply{fields: map[string]rule{}, atomic: map[string]bool{}}
	for _, t := range parsed.Types {
		if t.Map.Relationship == "atomic" {
			rules.atomic[t.Name] = true
		}
		for _, f := range t.Map.Fields {
			switch {
			case f.Type.List != nil && f.Type.List.Relationship == "associative" && len(f.Type.List.Keys) > 0:
				rules.fields[t.Name+"/"+f.Name] = rule{"map", f.Type.List.Keys}
			case f.Type.List != nil && f.Type.List.Relationship == "associative":
				rules.fields[t.Name+"/"+f.Name] = rule{"set", nil}
			case f.Type.List != nil, f.Type.Map != nil && f.Type.Map.Relationship == "atomic", f.Type.Relationship == "atomic":
				rules.fields[t.Name+"/"+f.Name] = rule{"atomic", nil}
			case f.Type.Relationship == "separable":
				rules.fields[t.Name+"/"+f.Name] = rule{"granular", nil}
			}
		}
	}
	return rules
}

type relation struct {
	Relationship string   `json:"elementRelationship"`
	Keys         []string `json:"keys"`
}

func dir(module string) string {
	return query(module, "{{.Dir}}")
}

func version(module string) string {
	return query(module, "{{.Version}}")
}

func query(module, format string) string {
	answer, err := exec.Command("go", "list", "-m", "-f", format, module).Output()
	check(err)
	return strings.TrimSpace(string(answer))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
