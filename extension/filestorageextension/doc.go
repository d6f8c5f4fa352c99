// Package filestorageextension is the file_storage extension of opentelemetry-collector-contrib,
// extended to check each file before opening it. The underlying database (bbolt) maps the file into
// memory and trusts its content: a damaged page can crash the process, at startup or later.
package filestorageextension
