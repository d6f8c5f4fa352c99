package demand

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Options configure a [Cluster].
type Options struct {
	// IsGPU tells which resource names are GPUs, beside those of GPU classes.
	IsGPU func(resource string) bool
	// Rules are the names of all rules that a pod can break.
	Rules []string
	// Drivers are the DRA drivers whose devices are GPUs.
	Drivers []string
	// Classes are device classes that are GPU classes whatever their objects say.
	Classes []string
	// First takes the first alternative of a firstAvailable request as its
	// demand; otherwise the largest one counts.
	First bool
	// Disabled are the metrics that are not emitted.
	Disabled map[*signal.Metric]bool
}

// Observed tells which kinds of objects are known. What needs a kind that is
// not known is not emitted.
type Observed struct {
	Pods, Nodes, Slices, Claims, Templates bool
}

// Stats describe the objects behind the points of one emission.
type Stats struct {
	// AllModeRequests are requests of pending claims for all matching devices. Each was counted
	// as one device.
	AllModeRequests int64
	// IncompletePools are pools of allowed drivers that were left out because
	// slices of the highest generation are missing or contradict each other.
	IncompletePools int64
	// IncompletePool is one of them, as driver/pool.
	IncompletePool string
	// UnknownDevices are allocated devices that no complete pool advertises. They cannot be
	// joined to telemetry.
	UnknownDevices int64
	// UnknownDevice is one of them, as driver/pool/device.
	UnknownDevice string
	// ConditionsLeftOut are conditions of nodes that were left out.
	ConditionsLeftOut int64
	// ConditionsNode is a node that has such conditions.
	ConditionsNode string
}

// Cluster holds the objects of a cluster. It is not safe for concurrent use.
type Cluster struct {
	opts      Options
	selectors []*regexp.Regexp

	pods      map[name]*Pod
	nodes     map[string]*Node
	claims    map[name]*resourcev1.ResourceClaim
	made      map[entry]int // how many claims were made for an entry of a pod
	templates map[name]*resourcev1.ResourceClaimTemplate
	classes   map[string]*resourcev1.DeviceClass
	slices    map[string]*Slice
	pools     map[poolID]*pool
}

// name identifies a namespaced object.
type name struct{ namespace, name string }

// entry is a pod's spec.resourceClaims entry.
type entry struct{ podUID, name string }

// New returns an empty cluster.
func New(opts Options) *Cluster {
	c := &Cluster{
		opts:      opts,
		pods:      map[name]*Pod{},
		nodes:     map[string]*Node{},
		claims:    map[name]*resourcev1.ResourceClaim{},
		made:      map[entry]int{},
		templates: map[name]*resourcev1.ResourceClaimTemplate{},
		classes:   map[string]*resourcev1.DeviceClass{},
		slices:    map[string]*Slice{},
		pools:     map[poolID]*pool{},
	}
	for _, d := range opts.Drivers {
		quoted := `["']` + regexp.QuoteMeta(d) + `["']`
		c.selectors = append(c.selectors, regexp.MustCompile(
			`device\.driver\s*==\s*`+quoted+`|`+quoted+`\s*==\s*device\.driver|device\.(attributes|capacity)\[\s*`+quoted+`\s*\]`))
	}
	return c
}

// SetPod adds a pod or replaces it. A pod that says nothing is forgotten.
func (c *Cluster) SetPod(p *Pod) {
	if p.saysNothing() {
		c.DeletePod(p.Namespace, p.Name)
		return
	}
	c.pods[name{p.Namespace, p.Name}] = p
}

// DeletePod forgets a pod.
func (c *Cluster) DeletePod(namespace, podName string) { delete(c.pods, name{namespace, podName}) }

// SetNode adds a node or replaces it.
func (c *Cluster) SetNode(n *Node) { c.nodes[n.Name] = n }

// DeleteNode forgets a node.
func (c *Cluster) DeleteNode(nodeName string) { delete(c.nodes, nodeName) }

// SetClaim adds a claim or replaces it.
func (c *Cluster) SetClaim(claim *resourcev1.ResourceClaim) {
	c.DeleteClaim(claim.Namespace, claim.Name)
	c.claims[name{claim.Namespace, claim.Name}] = claim
	if e := entryOf(claim); e != (entry{}) {
		c.made[e]++
	}
}

// entryOf returns the entry of a pod that a claim was made for, zero for a claim that is no
// template's.
func entryOf(claim *resourcev1.ResourceClaim) entry {
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.Kind != "Pod" {
		return entry{}
	}
	return entry{string(owner.UID), claim.Annotations[resourcev1.PodResourceClaimAnnotation]}
}

// DeleteClaim forgets a claim.
func (c *Cluster) DeleteClaim(namespace, claimName string) {
	key := name{namespace, claimName}
	old, ok := c.claims[key]
	if !ok {
		return
	}
	delete(c.claims, key)
	if e := entryOf(old); c.made[e] > 1 {
		c.made[e]--
	} else {
		delete(c.made, e)
	}
}

// SetTemplate adds a claim template or replaces it.
func (c *Cluster) SetTemplate(t *resourcev1.ResourceClaimTemplate) {
	c.templates[name{t.Namespace, t.Name}] = t
}

// DeleteTemplate forgets a claim template.
func (c *Cluster) DeleteTemplate(namespace, templateName string) {
	delete(c.templates, name{namespace, templateName})
}

// SetClass adds a device class or replaces it.
func (c *Cluster) SetClass(class *resourcev1.DeviceClass) { c.classes[class.Name] = class }

// DeleteClass forgets a device class.
func (c *Cluster) DeleteClass(className string) { delete(c.classes, className) }

// Points appends the points of everything that is observed to out. Points of
// one place and metric follow each other.
func (c *Cluster) Points(now time.Time, seen Observed, out []Point) ([]Point, Stats) {
	e := &emission{Cluster: c, now: now, seen: seen, out: out, gpuClasses: map[string]bool{}, gpuResources: map[string]bool{}}
	e.findGPUClasses()
	if seen.Pods {
		e.addPods()
		e.addBrokenRules()
		e.addHealth()
	}
	if seen.Claims {
		e.addClaims()
	}
	if seen.Slices {
		e.addPools()
	}
	if seen.Nodes {
		e.addNodes()
	}
	if seen.Claims {
		e.addClaimDevices()
	}
	return e.out, e.stats
}

// emission is the work of one Points.
type emission struct {
	*Cluster
	now   time.Time
	seen  Observed
	out   []Point
	stats Stats

	gpuClasses   map[string]bool // classes whose objects say so
	gpuResources map[string]bool // answers of isGPU
	byClaim      map[name][]*Pod // the pods that name a claim; nil until a PodGroup has one
}

func (e *emission) int(m *signal.Metric, place Place, v int64, attrs ...Attribute) {
	if !e.opts.Disabled[m] {
		e.out = append(e.out, Point{Metric: m, Place: place, Attributes: attrs, Int: v})
	}
}

func (e *emission) double(m *signal.Metric, place Place, v float64, attrs ...Attribute) {
	if !e.opts.Disabled[m] {
		e.out = append(e.out, Point{Metric: m, Place: place, Attributes: attrs, Double: v})
	}
}

// findGPUClasses judges the class objects, and notes the resource names that
// they stand behind.
func (e *emission) findGPUClasses() {
	for className, class := range e.classes {
		resource := ptr.Deref(class.Spec.ExtendedResourceName, "")
		if !e.namedGPUClass(className) && !e.opts.IsGPU(resource) && !slices.ContainsFunc(class.Spec.Selectors, e.selectsGPU) {
			continue
		}
		e.gpuClasses[className] = true
		e.gpuResources[deviceClassResource+className] = true
		if resource != "" {
			e.gpuResources[resource] = true
		}
	}
}

// deviceClassResource precedes a class's name in its implicit extended resource.
const deviceClassResource = "deviceclass.resource.kubernetes.io/"

// namedGPUClass judges a class by its name.
func (c *Cluster) namedGPUClass(className string) bool {
	return slices.Contains(c.opts.Classes, className) || slices.Contains(c.opts.Drivers, className)
}

func (c *Cluster) selectsGPU(s resourcev1.DeviceSelector) bool {
	return s.CEL != nil && slices.ContainsFunc(c.selectors, func(r *regexp.Regexp) bool { return r.MatchString(s.CEL.Expression) })
}

// isGPUClass judges a class that a request names; its object may be unknown.
func (e *emission) isGPUClass(className string) bool {
	return e.gpuClasses[className] || e.namedGPUClass(className)
}

// isGPU judges a resource name.
func (e *emission) isGPU(resource string) bool {
	gpu, ok := e.gpuResources[resource]
	if !ok {
		className, implicit := strings.CutPrefix(resource, deviceClassResource)
		gpu = e.opts.IsGPU(resource) || implicit && e.namedGPUClass(className)
		e.gpuResources[resource] = gpu
	}
	return gpu
}

// add returns a + b, of amounts that are not negative, or the largest number.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
