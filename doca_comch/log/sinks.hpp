// Where records go, as spdlog sinks.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include <spdlog/sinks/sink.h>

namespace comch::doca {

using Sink = std::shared_ptr<spdlog::sinks::sink>;

[[nodiscard]] Sink make_file_sink(FILE* file);
[[nodiscard]] Sink make_fd_sink(int fd);
/// Writes a record with its NUL to the front of `buffer` and calls `handler`; a record that does
/// not fit is dropped.
[[nodiscard]] Sink make_buffer_sink(char* buffer, std::size_t capacity, void (*handler)(char*));
[[nodiscard]] Sink make_syslog_sink(const std::string& name);

/// How records look: with or without the place in the source that they come from.
void set_format(Sink& sink, bool has_place);

} // namespace comch::doca
