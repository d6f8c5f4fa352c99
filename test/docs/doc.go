// Package docs holds the documentation to what the code says: names of metrics,
// links, queries and configurations in the Markdown files of the repository.
package docs
