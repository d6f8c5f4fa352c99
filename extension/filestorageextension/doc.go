// Package filestorageextension is the file_storage extension of opentelemetry-collector-contrib
// with an additional check of each file before it is opened. The database (bbolt) maps the file
// into memory and trusts its content, so a damaged page can crash the process at startup or later.
package filestorageextension
