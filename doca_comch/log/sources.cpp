#include "doca_comch/log/sources.hpp"

namespace comch::doca {
namespace {

constexpr std::string_view separator = "::";

/// How many levels `name` is below `root` (an empty root is above all); 0 if it is not below it.
unsigned levels_below(std::string_view name, std::string_view root) {
    if (!root.empty()) {
        if (!name.starts_with(root) || !name.substr(root.size()).starts_with(separator)) {
            return 0;
        }
        name.remove_prefix(root.size() + separator.size());
    }
    unsigned levels = 1;
    for (std::size_t at = name.find(separator); at != name.npos;
         at = name.find(separator, at + separator.size())) {
        ++levels;
    }
    return levels;
}

} // namespace

Sources& Sources::instance() {
    return never_destroyed<Sources>();
}

int Sources::find_or_add(std::string_view name) {
    for (std::size_t i = 0; i < loggers_.size(); ++i) {
        if (loggers_[i]->name == name) {
            return static_cast<int>(i);
        }
    }
    auto logger = std::make_unique<doca_logger>();
    logger->name = name;
    loggers_.push_back(std::move(logger));
    return count_.fetch_add(1, std::memory_order_relaxed);
}

int Sources::add(std::string_view name) {
    name = name.substr(0, DOCA_LOGGER_NAME_SIZE - 1);
    const std::lock_guard lock(mutex_);
    for (std::size_t at = name.find(separator); at != name.npos;
         at = name.find(separator, at + separator.size())) {
        (void)find_or_add(name.substr(0, at));
    }
    return find_or_add(name);
}

doca_logger* Sources::at(int source) {
    const std::lock_guard lock(mutex_);
    return has(source) ? loggers_[static_cast<std::size_t>(source)].get() : nullptr;
}

bool Sources::has(const doca_logger* logger) {
    const std::lock_guard lock(mutex_);
    for (const auto& each : loggers_) {
        if (each.get() == logger) {
            return true;
        }
    }
    return false;
}

std::vector<doca_logger*> Sources::below(const doca_logger* logger, unsigned depth) {
    std::vector<doca_logger*> list;
    const std::string_view root = logger != nullptr ? std::string_view(logger->name) : "";
    const std::lock_guard lock(mutex_);
    for (const auto& each : loggers_) {
        const unsigned levels = levels_below(each->name, root);
        if (levels != 0 && (depth == 0 || levels <= depth)) {
            list.push_back(each.get());
        }
    }
    return list;
}

} // namespace comch::doca
