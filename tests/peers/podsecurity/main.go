// Command podsecurity prints what upstream's PodSecurity admission says of pods, templates and namespaces.
//
// Its argument is a file with settings: single fields of a pod. Each setting is tried alone on a pod that obeys
// the strictest policy, and in random combinations on that one and on one that says nothing. `make podsecurity` keeps the answers,
// which our own plugin is compared with.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math/rand"
	"os"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"
)

// Random combinations, and the settings in each.
const (
	combinations = 200
	settingsMin  = 2
	settingsMax  = 8
)

// The newest version asked for; upstream's last change of a check is older.
const newest = 36

type setting struct {
	// Keys and indexes, separated by spaces.
	At    string `json:"at"`
	Value any    `json:"value"`
}

type input struct {
	Silent   map[string]any      `json:"silent"`
	Obedient map[string]any      `json:"obedient"`
	Settings []setting           `json:"settings"`
	Labels   []map[string]string `json:"labels"`
	Requests []request           `json:"requests"`
}

type request struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Operation   string            `json:"operation"`
	Group       string            `json:"group,omitempty"`
	Version     string            `json:"version"`
	Resource    string            `json:"resource"`
	Kind        string            `json:"kind"`
	Subresource string            `json:"subresource,omitempty"`
	Object      json.RawMessage   `json:"object"`
	Old         json.RawMessage   `json:"old,omitempty"`
	// Of the namespace.
	Pods []corev1.Pod `json:"pods,omitempty"`
}

// One line of the answers: one of these.
type answer struct {
	Pod map[string]any `json:"pod,omitempty"`
	// By level, then the first minor version from which on an answer holds; empty texts allow.
	Says map[string]map[int]string `json:"says,omitempty"`

	Labels map[string]string `json:"labels,omitempty"`
	Policy []string          `json:"policy,omitempty"`
	Errors []string          `json:"errors,omitempty"`

	Request  *request                       `json:"request,omitempty"`
	Response *admissionv1.AdmissionResponse `json:"response,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: podsecurity SETTINGS")
	}
	text, err := os.ReadFile(os.Args[1])
	check(err)
	var in input
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	check(decoder.Decode(&in))
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	check(err)

	for _, pod := range pods(in) {
		print(answer{Pod: pod, Says: says(evaluator, pod)})
	}
	for _, labels := range in.Labels {
		parsed, errs := api.PolicyToEvaluate(labels, privileged())
		of := answer{Labels: labels}
		for _, mode := range []api.LevelVersion{parsed.Enforce, parsed.Audit, parsed.Warn} {
			of.Policy = append(of.Policy, mode.String())
		}
		for _, err := range errs {
			of.Errors = append(of.Errors, err.Error())
		}
		print(of)
	}
	for _, request := range in.Requests {
		print(answer{Request: &request, Response: respond(evaluator, request)})
	}
}

func pods(in input) []map[string]any {
	all := []map[string]any{copied(in.Silent), copied(in.Obedient)}
	for _, one := range in.Settings {
		all = append(all, with(in.Obedient, one))
	}
	random := rand.New(rand.NewSource(1))
	for range combinations {
		chosen := in.Settings
		pod := copied(in.Obedient)
		if random.Intn(2) == 0 {
			pod = copied(in.Silent)
		}
		for range settingsMin + random.Intn(settingsMax-settingsMin+1) {
			pod = with(pod, chosen[random.Intn(len(chosen))])
		}
		all = append(all, pod)
	}
	return all
}

func with(pod map[string]any, one setting) map[string]any {
	return set(copied(pod), strings.Split(one.At, " "), one.Value).(map[string]any)
}

// Makes what is missing on the way. A number beyond the end of a list appends.
func set(value any, path []string, leaf any) any {
	if len(path) == 0 {
		return leaf
	}
	if index, err := strconv.Atoi(path[0]); err == nil {
		list, _ := value.([]any)
		if index >= len(list) {
			return append(list, set(nil, path[1:], leaf))
		}
		list[index] = set(list[index], path[1:], leaf)
		return list
	}
	fields, ok := value.(map[string]any)
	if !ok {
		fields = map[string]any{}
	}
	fields[path[0]] = set(fields[path[0]], path[1:], leaf)
	return fields
}

func says(evaluator policy.Evaluator, pod map[string]any) map[string]map[int]string {
	var typed corev1.Pod
	strictly(pod, &typed)
	all := map[string]map[int]string{}
	for _, level := range []api.Level{api.LevelBaseline, api.LevelRestricted} {
		all[string(level)] = map[int]string{}
		var last string
		// The version after the newest stands for `latest`.
		for minor := range newest + 2 {
			version := api.MajorMinorVersion(1, minor)
			if minor > newest {
				version = api.LatestVersion()
			}
			at := api.LevelVersion{Level: level, Version: version}
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(at, &typed.ObjectMeta, &typed.Spec))
			said := result.ForbiddenDetail()
			if minor == 0 || said != last {
				all[string(level)][minor] = said
			}
			last = said
		}
	}
	return all
}

func privileged() api.Policy {
	mode := api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
	return api.Policy{Enforce: mode, Audit: mode, Warn: mode}
}

// The one namespace there is.
type cluster struct{ request request }

func (c cluster) GetNamespace(context.Context, string) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	namespace.Labels = c.request.Labels
	return namespace, nil
}

func (c cluster) ListPods(context.Context, string) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, pod := range c.request.Pods {
		pods = append(pods, &pod)
	}
	return pods, nil
}

func respond(evaluator policy.Evaluator, request request) *admissionv1.AdmissionResponse {
	config, err := load.LoadFromData(nil)
	check(err)
	plugin := &admission.Admission{
		Configuration:   config,
		Evaluator:       evaluator,
		Metrics:         metrics.NewPrometheusRecorder(api.GetAPIVersion()),
		NamespaceGetter: cluster{request},
		PodLister:       cluster{request},
	}
	check(plugin.CompleteConfiguration())
	check(plugin.ValidateConfiguration())
	attributes := &api.AttributesRecord{
		Name:        request.Name,
		Namespace:   "n",
		Kind:        schema.GroupVersionKind{Group: request.Group, Version: request.Version, Kind: request.Kind},
		Resource:    schema.GroupVersionResource{Group: request.Group, Version: request.Version, Resource: request.Resource},
		Subresource: request.Subresource,
		Operation:   admissionv1.Operation(request.Operation),
		Object:      object(request.Kind, request.Object),
		OldObject:   object(request.Kind, request.Old),
	}
	if request.Resource == "namespaces" {
		attributes.Namespace = ""
	}
	return plugin.Validate(context.Background(), attributes)
}

func object(kind string, text json.RawMessage) runtime.Object {
	if text == nil {
		return nil
	}
	kinds := map[string]runtime.Object{
		"Namespace":             &corev1.Namespace{},
		"Pod":                   &corev1.Pod{},
		"PodTemplate":           &corev1.PodTemplate{},
		"ReplicationController": &corev1.ReplicationController{},
		"ReplicaSet":            &appsv1.ReplicaSet{},
		"Deployment":            &appsv1.Deployment{},
		"StatefulSet":           &appsv1.StatefulSet{},
		"DaemonSet":             &appsv1.DaemonSet{},
		"Job":                   &batchv1.Job{},
		"CronJob":               &batchv1.CronJob{},
	}
	strictly(text, kinds[kind])
	return kinds[kind]
}

// A field that upstream does not know would test nothing.
func strictly(from, to any) {
	text, err := json.Marshal(from)
	check(err)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	check(decoder.Decode(to))
}

func copied(pod map[string]any) map[string]any {
	var copied map[string]any
	strictly(pod, &copied)
	return copied
}

func print(of answer) {
	text, err := json.Marshal(of)
	check(err)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
