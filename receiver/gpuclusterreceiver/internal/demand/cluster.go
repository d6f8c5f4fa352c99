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

// Options configures a [Cluster].
type Options struct {
	// IsGPU reports whether a resource name refers to a GPU resource. In addition, the extended
	// resources of GPU classes always count as GPU resources.
	IsGPU func(resource string) bool
	// Rules contains the names of all rules of the GPU share API.
	Rules []string
	// Drivers are the DRA drivers whose devices are GPUs.
	Drivers []string
	// Classes are the names of device classes that always count as GPU classes, regardless of the
	// contents of the DeviceClass objects.
	Classes []string
	// First is true if the most preferred alternative of a firstAvailable request counts as demand.
	// Otherwise, the largest alternative counts.
	First bool
	// Disabled contains the metrics that are not emitted.
	Disabled map[*signal.Metric]bool
}

// Observed records the kinds for which all objects are known. Metrics that depend on an unknown
// kind are not emitted.
type Observed struct {
	Pods, Nodes, Slices, Claims, Templates bool
	// TaintRules is also true if the API server does not serve DeviceTaintRules.
	TaintRules bool
}

// Stats contains statistics about the objects in an emission.
type Stats struct {
	// AllModeRequests is the number of requests in pending claims that request all matching
	// devices. A request for all matching devices counts as one device.
	AllModeRequests int64
	// IncompletePools is the number of pools that are not emitted, because slices of the highest
	// generation are missing or inconsistent.
	IncompletePools int64
	// IncompletePool is an example of an incomplete pool, in the form driver/pool.
	IncompletePool string
	// UnknownDevices is the number of allocated devices that are not in any complete pool. Devices
	// that are not in a complete pool cannot be joined with telemetry.
	UnknownDevices int64
	// UnknownDevice is an example of an unknown device, in the form driver/pool/device.
	UnknownDevice string
	// ConditionsDropped is the number of node conditions that were dropped.
	ConditionsDropped int64
	// ConditionsNode is an example of a node for which conditions were dropped.
	ConditionsNode string
	// ClaimConditionsDropped is the number of conditions of allocated devices that were dropped
	// because their type is too long.
	ClaimConditionsDropped int64
	// ConditionsClaim is an example of a claim for which conditions were dropped, in the form
	// namespace/name.
	ConditionsClaim string
}

// Cluster stores the objects of a Kubernetes cluster. A Cluster is not safe for concurrent use.
type Cluster struct {
	opts      Options
	selectors []*regexp.Regexp

	pods          map[objectName]*Pod
	nodes         map[string]*Node
	claims        map[objectName]*resourcev1.ResourceClaim
	createdClaims map[claimEntry]int // the number of existing claims for each entry
	templates     map[objectName]*resourcev1.ResourceClaimTemplate
	classes       map[string]*resourcev1.DeviceClass
	slices        map[string]*Slice
	rules         map[string]*resourcev1.DeviceTaintRule
	pools         map[poolID]*pool
}

// objectName identifies a namespaced object.
type objectName struct{ namespace, objectName string }

// claimEntry identifies an entry in spec.resourceClaims of a pod or a PodGroup. Either podUID or
// group is set. All pods of a PodGroup contain the entries of the group, and share the claims that
// are created for these entries.
type claimEntry struct {
	podUID string
	group  objectName
	entry  string
}

// New returns an empty cluster.
func New(opts Options) *Cluster {
	c := &Cluster{
		opts:          opts,
		pods:          map[objectName]*Pod{},
		nodes:         map[string]*Node{},
		claims:        map[objectName]*resourcev1.ResourceClaim{},
		createdClaims: map[claimEntry]int{},
		templates:     map[objectName]*resourcev1.ResourceClaimTemplate{},
		classes:       map[string]*resourcev1.DeviceClass{},
		slices:        map[string]*Slice{},
		rules:         map[string]*resourcev1.DeviceTaintRule{},
		pools:         map[poolID]*pool{},
	}
	for _, d := range opts.Drivers {
		quoted := `["']` + regexp.QuoteMeta(d) + `["']`
		c.selectors = append(c.selectors, regexp.MustCompile(
			`device\.driver\s*==\s*`+quoted+`|`+quoted+`\s*==\s*device\.driver|device\.(attributes|capacity)\[\s*`+quoted+`\s*\]`))
	}
	return c
}

// SetPod adds or replaces a pod. If the new pod does not affect any metric, SetPod deletes the
// stored pod instead.
func (c *Cluster) SetPod(p *Pod) {
	if p.isIrrelevant() {
		c.DeletePod(p.Namespace, p.Name)
		return
	}
	c.pods[objectName{p.Namespace, p.Name}] = p
}

// DeletePod deletes a pod.
func (c *Cluster) DeletePod(namespace, podName string) {
	delete(c.pods, objectName{namespace, podName})
}

// SetNode adds or replaces a node.
func (c *Cluster) SetNode(n *Node) { c.nodes[n.Name] = n }

// DeleteNode deletes a node.
func (c *Cluster) DeleteNode(nodeName string) { delete(c.nodes, nodeName) }

// SetClaim adds or replaces a claim.
func (c *Cluster) SetClaim(claim *resourcev1.ResourceClaim) {
	c.DeleteClaim(claim.Namespace, claim.Name)
	c.claims[objectName{claim.Namespace, claim.Name}] = claim
	if e := entryOf(claim); e != (claimEntry{}) {
		c.createdClaims[e]++
	}
}

// entryOf returns the entry in spec.resourceClaims for which a claim was created. If the claim's
// controller is neither a pod nor a PodGroup, entryOf returns the zero value. For a claim that the
// scheduler created for a pod's extended resources, the name of the entry is empty.
func entryOf(claim *resourcev1.ResourceClaim) claimEntry {
	owner := metav1.GetControllerOfNoCopy(claim)
	entry := claim.Annotations[resourcev1.PodResourceClaimAnnotation]
	switch {
	case owner == nil:
	case owner.Kind == "Pod":
		return claimEntry{podUID: string(owner.UID), entry: entry}
	case owner.Kind == "PodGroup" && strings.HasPrefix(owner.APIVersion, "scheduling.k8s.io/"):
		return claimEntry{group: objectName{claim.Namespace, owner.Name}, entry: entry}
	}
	return claimEntry{}
}

// isCreated reports whether a claim exists for the given entry of a pod.
func (c *Cluster) isCreated(p *Pod, entry string) bool {
	return c.createdClaims[claimEntry{podUID: p.UID, entry: entry}] > 0 ||
		p.Group != "" && c.createdClaims[claimEntry{group: objectName{p.Namespace, p.Group}, entry: entry}] > 0
}

// DeleteClaim deletes a claim.
func (c *Cluster) DeleteClaim(namespace, claimName string) {
	key := objectName{namespace, claimName}
	old, ok := c.claims[key]
	if !ok {
		return
	}
	delete(c.claims, key)
	if e := entryOf(old); c.createdClaims[e] > 1 {
		c.createdClaims[e]--
	} else {
		delete(c.createdClaims, e)
	}
}

// SetTemplate adds or replaces a claim template.
func (c *Cluster) SetTemplate(t *resourcev1.ResourceClaimTemplate) {
	c.templates[objectName{t.Namespace, t.Name}] = t
}

// DeleteTemplate deletes a claim template.
func (c *Cluster) DeleteTemplate(namespace, templateName string) {
	delete(c.templates, objectName{namespace, templateName})
}

// SetClass adds or replaces a device class.
func (c *Cluster) SetClass(class *resourcev1.DeviceClass) { c.classes[class.Name] = class }

// DeleteClass deletes a device class.
func (c *Cluster) DeleteClass(className string) { delete(c.classes, className) }

// Points appends the points for all observed kinds to the out slice. Points that have the same
// Place and the same metric are consecutive, except the points of claims and devices: for example,
// a pod can have several claims, and the devices of a pool can be on several nodes.
func (c *Cluster) Points(now time.Time, observed Observed, out []Point) ([]Point, Stats) {
	e := &emission{Cluster: c, now: now, observed: observed, out: out, gpuClasses: map[string]bool{}, gpuResources: map[string]bool{}}
	e.findGPUClasses()
	if observed.Pods {
		e.addPods()
		e.addBrokenRules()
		e.addHealth()
	}
	if observed.Claims {
		e.addClaims()
	}
	if observed.Slices {
		e.addPools()
	}
	if observed.Nodes {
		e.addNodes()
	}
	if observed.Claims {
		e.addClaimDevices()
	}
	return e.out, e.stats
}

// emission contains the state of a single call to Points.
type emission struct {
	*Cluster
	now      time.Time
	observed Observed
	out      []Point
	stats    Stats

	gpuClasses   map[string]bool         // The DeviceClass objects that are GPU classes.
	gpuResources map[string]bool         // The cached results of isGPU.
	byClaim      map[claimOfGroup][]*Pod // The pods of a PodGroup that reference a claim; nil until this map is needed.
}

// claimOfGroup identifies a claim and a PodGroup whose pods may reference the claim.
type claimOfGroup struct {
	claim objectName
	group string
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

// findGPUClasses finds the DeviceClass objects that are GPU classes, and the extended resource
// names of these classes.
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

// deviceClassResource is the prefix of the extended resource names that Kubernetes implicitly
// defines for device classes.
const deviceClassResource = "deviceclass.resource.kubernetes.io/"

// namedGPUClass reports whether a class is a GPU class because of its name.
func (c *Cluster) namedGPUClass(className string) bool {
	return slices.Contains(c.opts.Classes, className) || slices.Contains(c.opts.Drivers, className)
}

func (c *Cluster) selectsGPU(s resourcev1.DeviceSelector) bool {
	return s.CEL != nil && slices.ContainsFunc(c.selectors, func(r *regexp.Regexp) bool { return r.MatchString(s.CEL.Expression) })
}

// isGPUClass reports whether a requested device class is a GPU class. The DeviceClass object does
// not have to exist.
func (e *emission) isGPUClass(className string) bool {
	return e.gpuClasses[className] || e.namedGPUClass(className)
}

// isGPU reports whether a resource name refers to a GPU resource.
func (e *emission) isGPU(resource string) bool {
	gpu, ok := e.gpuResources[resource]
	if !ok {
		className, implicit := strings.CutPrefix(resource, deviceClassResource)
		gpu = e.opts.IsGPU(resource) || implicit && e.namedGPUClass(className)
		e.gpuResources[resource] = gpu
	}
	return gpu
}

// The add function returns the sum of two non-negative amounts, or the largest int64 if the sum
// overflows.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
