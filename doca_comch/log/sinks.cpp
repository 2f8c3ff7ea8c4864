#include "doca_comch/log/sinks.hpp"

#include <cerrno>
#include <cstring>
#include <mutex>

#include <syslog.h>
#include <unistd.h>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/syslog_sink.h>

namespace comch::doca {
namespace {

/// The level as three letters, which keeps the columns straight.
class ShortLevel final : public spdlog::custom_flag_formatter {
public:
    void format(const spdlog::details::log_msg& message, const std::tm&,
                spdlog::memory_buf_t& to) override {
        static constexpr const char* names[] = {"TRC", "DBG", "INF", "WRN", "ERR", "CRT", "OFF"};
        const char* const name = names[message.level];
        to.append(name, name + std::strlen(name));
    }
    [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
        return std::make_unique<ShortLevel>();
    }
};

/// A sink that is handed finished records, one at a time.
class RecordSink : public spdlog::sinks::base_sink<std::mutex> {
protected:
    void sink_it_(const spdlog::details::log_msg& message) final {
        spdlog::memory_buf_t record;
        formatter_->format(message, record);
        write(record);
    }
    virtual void write(spdlog::memory_buf_t& record) = 0;
    void flush_() override {}
};

class FileSink final : public RecordSink {
public:
    explicit FileSink(FILE* file) : file_(file) {}

private:
    void write(spdlog::memory_buf_t& record) override {
        // A log that cannot be written has nowhere to complain.
        (void)std::fwrite(record.data(), 1, record.size(), file_);
        (void)std::fflush(file_);
    }
    FILE* const file_;
};

class FdSink final : public RecordSink {
public:
    explicit FdSink(int fd) : fd_(fd) {}

private:
    void write(spdlog::memory_buf_t& record) override {
        const char* from = record.data();
        std::size_t left = record.size();
        while (left != 0) {
            const ssize_t written = ::write(fd_, from, left);
            if (written < 0 && errno == EINTR) {
                continue;
            }
            if (written <= 0) {
                return;
            }
            from += written;
            left -= static_cast<std::size_t>(written);
        }
    }
    const int fd_;
};

class BufferSink final : public RecordSink {
public:
    BufferSink(char* buffer, std::size_t capacity, void (*handler)(char*))
        : buffer_(buffer), capacity_(capacity), handler_(handler) {}

private:
    void write(spdlog::memory_buf_t& record) override {
        if (record.size() < capacity_) {
            std::memcpy(buffer_, record.data(), record.size());
            buffer_[record.size()] = '\0';
            handler_(buffer_);
        }
    }
    char* const buffer_;
    const std::size_t capacity_;
    void (*const handler_)(char*);
};

} // namespace

Sink make_file_sink(FILE* file) {
    return std::make_shared<FileSink>(file);
}

Sink make_fd_sink(int fd) {
    return std::make_shared<FdSink>(fd);
}

Sink make_buffer_sink(char* buffer, std::size_t capacity, void (*handler)(char*)) {
    return std::make_shared<BufferSink>(buffer, capacity, handler);
}

Sink make_syslog_sink(const std::string& name) {
    return std::make_shared<spdlog::sinks::syslog_sink_mt>(name, LOG_PID, LOG_USER, true);
}

void set_format(Sink& sink, bool has_place) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    // time, process, level, source; file:line, function
    formatter->add_flag<ShortLevel>('*').set_pattern(
        has_place ? "[%H:%M:%S:%f][%P][DOCA][%*][%n][%s:%#][%!] %v"
                  : "[%H:%M:%S:%f][%P][DOCA][%*][%n] %v");
    sink->set_formatter(std::move(formatter));
}

} // namespace comch::doca
