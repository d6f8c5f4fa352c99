package kube

// ListPodResources asks a kubelet once.
var ListPodResources = listPodResources
