// Package docs checks that the repository's Markdown files match the code. The package checks the
// names of metrics, links, queries, and configurations.
package docs
