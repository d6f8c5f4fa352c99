package kube

var ListPodResources = listPodResources
