// Package docs checks that the repository's Markdown files match the code. It checks the names of
// metrics, links, queries, and configurations.
package docs
