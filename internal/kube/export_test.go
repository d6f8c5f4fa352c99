package kube

// ListPodResources reads the kubelet once.
var ListPodResources = listPodResources
