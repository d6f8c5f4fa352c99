// Package filestorageextension is the file_storage extension of opentelemetry-collector-contrib
// with one addition: each database file is checked before it is opened. The check is needed because
// bbolt maps the file into memory and trusts its contents, so a damaged page could crash the
// process at startup or later.
package filestorageextension
