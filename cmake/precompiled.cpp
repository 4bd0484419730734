// Nothing: the precompiled header that all targets share wants a source of its own.
