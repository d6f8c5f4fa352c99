// Package filestorageextension is the file_storage extension of opentelemetry-collector-contrib,
// which it extends with a check of each file before the file is opened. The database (bbolt) maps
// the file into memory and trusts its content, so a damaged page can crash the process at startup
// or later.
package filestorageextension
