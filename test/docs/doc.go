// Package docs checks the documentation against the code: names of metrics, links, queries, and
// configurations in the repository's Markdown files.
package docs
