package gpushare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Violation describes how a pod breaks a rule, including the location of the request and the
// allowed values.
type Violation struct {
	Rule Rule
	// Container is the container that breaks the rule. Container is "" if only the pod's effective
	// requests break the rule.
	Container string
	// Field is the path of the request that breaks the rule or that is missing. If Container is "",
	// the path contains [*] instead of the container's index.
	Field string
	// Value is the requested quantity, or "" if the request is missing. If the rule applies to
	// several requested names, Value lists the names and their quantities.
	Value string
	// Allowed describes the allowed values, such as "must be at least 1".
	Allowed string
}

// String returns a one-line description for users.
func (v Violation) String() string {
	where := "the pod's containers together"
	if v.Container != "" {
		where = fmt.Sprintf("container %q", v.Container)
	}
	is := "is missing"
	if v.Value != "" {
		is = "is " + v.Value
	}
	return fmt.Sprintf("%s: %s: %s %s: %s", v.Rule, where, v.Field, is, v.Allowed)
}

// ruleTexts maps each rule to the rule's resource and to a description of the allowed values.
var ruleTexts = map[Rule]struct{ resource, allowed string }{
	VendorWithShare:          {"", "must not be requested in a pod with koordinator.sh GPU resources; use one of the two APIs"},
	MemoryWithRatio:          {koordMemory, "must not be requested together with " + koordRatio + "; use one of the two"},
	CoreWithoutMemory:        {koordCore, "must be requested together with " + koordMemory + " or " + koordRatio},
	MemoryWithoutShared:      {koordShared, "must be at least 1 where " + koordMemory + " or " + koordRatio + " is requested"},
	GPUWithShared:            {koordGPU, "must not be requested together with " + koordShared},
	GPUZero:                  {koordGPU, "must be 1 to 100, or a multiple of 100"},
	GPUNotMultipleOf100:      {koordGPU, "must be 1 to 100, or a multiple of 100"},
	SharedZero:               {koordShared, "must be at least 1"},
	SharedWithoutMemory:      {koordShared, "must be requested together with " + koordMemory + " or " + koordRatio + " above 0"},
	CoreNotMultipleOfShared:  {koordCore, "must be a multiple of " + koordShared},
	RatioNotMultipleOfShared: {koordRatio, "must be a multiple of " + koordShared},
	CoreNotMultipleOf100:     {koordCore, "must be 1 to 100, or a multiple of 100"},
	RatioNotMultipleOf100:    {koordRatio, "must be 1 to 100, or a multiple of 100"},
	CoreOverDevice:           {koordCore, "must be at most 100 for each device of " + koordShared},
	RatioOverDevice:          {koordRatio, "must be at most 100 for each device of " + koordShared},
	NPUOverDevice:            {koordShared, "must be 1 for a share of an NPU, and " + npuDVPP + " at most 100"},
	UnknownCombination: {"", "must be " + koordGPU + " alone, or " + koordShared + " with one of " + koordMemory + " and " +
		koordRatio + ", and with or without " + koordCore},
}

// Violations describes how a pod breaks rules, in the order of [Families.Check]. For each rule,
// there is one Violation for each container that breaks the rule. If no single container breaks the
// rule, there is one Violation for the pod.
func (f Families) Violations(p *corev1.Pod) []Violation {
	containers, effective := PodRequests(p)
	rules := f.Check(containers, effective)
	if len(rules) == 0 {
		return nil
	}
	described := Containers(p)
	alone := make([][]Rule, len(containers))
	for i, c := range containers {
		alone[i] = f.Check([]Requests{c}, c)
	}
	var violations []Violation
	for _, rule := range rules {
		found := false
		for i := range containers {
			if !slices.Contains(alone[i], rule) {
				continue
			}
			found = true
			path := field.NewPath("spec", "initContainers").Index(i)
			if app := i - len(p.Spec.InitContainers); app >= 0 {
				path = field.NewPath("spec", "containers").Index(app)
			}
			violations = append(violations, f.violation(rule, described[i].Name, path, containers[i]))
		}
		if !found {
			violations = append(violations, f.violation(rule, "", field.NewPath("spec", "containers").Key("*"), effective))
		}
	}
	return violations
}

// violation describes how the requests of a container or a pod break a rule.
func (f Families) violation(rule Rule, container string, path *field.Path, r Requests) Violation {
	text := ruleTexts[rule]
	v := Violation{Rule: rule, Container: container, Allowed: text.allowed}
	name := text.resource
	if name == "" {
		var requested []string
		name, requested = f.requested(rule, r)
		v.Value = strings.Join(requested, ", ")
	} else if q, ok := r[name]; ok {
		v.Value = q.String()
	}
	v.Field = path.Child("resources", "requests").Key(name).String()
	return v
}

// The requested method returns the first requested resource name to which a rule applies, and the
// quantities of all requested names to which the rule applies. The VendorWithShare rule applies to
// the names of vendors' GPUs. The UnknownCombination rule applies to all names that the scheduler
// knows.
func (f Families) requested(rule Rule, r Requests) (first string, quantities []string) {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		q := r[name]
		family, isGPU := f.Lookup(name)
		_, matters := combinationBits[name]
		if rule == VendorWithShare {
			matters = isGPU && family == Vendor
		}
		if !matters || Units(q) == 0 {
			continue
		}
		if first == "" {
			first = name
		}
		quantities = append(quantities, name+"="+q.String())
	}
	if len(quantities) == 1 {
		q := r[first]
		quantities[0] = q.String()
	}
	return first, quantities
}
