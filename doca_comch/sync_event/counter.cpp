#include "doca_comch/sync_event/counter.hpp"

#include <atomic>

#include <sched.h>

namespace comch::doca {

Result<void> Counter::open(const Device& device) {
    auto engine = ProgressEngine::create();
    if (!engine) {
        return tl::unexpected(engine.error());
    }
    auto client = transfer::Client::open(**engine, device, [](void* cookie, Errc status) {
        auto& operation = *static_cast<CounterOperation*>(cookie);
        operation.outcome = status;
        if (operation.done != nullptr) {
            operation.done(operation);
        }
    });
    if (!client) {
        return tl::unexpected(client.error());
    }
    engine_ = std::move(*engine);
    client_ = std::move(*client);
    return {};
}

void Counter::close() {
    client_.reset();
    engine_.reset();
}

Errc Counter::begin(CounterOperation& operation) {
    operation.outcome = Errc::in_progress;
    if (there_) {
        const transfer::RemotePlace place{*there_->map, there_->service, there_->map->address()};
        return client_->atomic(place,
                               {.op = operation.op,
                                .size = sizeof(operation.old),
                                .operand = operation.operand,
                                .compare = 0,
                                .result = &operation.old},
                               &operation);
    }
    // Who sees an update sees what its publisher did before it.
    const std::atomic_ref counter(*here_);
    operation.old = operation.op == link::AtomicOp::swap
                        ? counter.exchange(operation.operand, std::memory_order_acq_rel)
                    : operation.operand == 0
                        ? counter.load(std::memory_order_acquire)
                        : counter.fetch_add(operation.operand, std::memory_order_acq_rel);
    return Errc::ok;
}

Errc Counter::perform(link::AtomicOp op, std::uint64_t operand, std::uint64_t& old) {
    CounterOperation operation{.op = op, .operand = operand};
    Errc result = begin(operation);
    while (result == Errc::again) {
        progress();
        result = begin(operation);
    }
    while (result == Errc::in_progress) {
        if (engine_->progress() == 0) {
            ::sched_yield(); // the other end may be waiting for this CPU
        }
        result = operation.outcome;
    }
    if (result == Errc::ok) {
        old = operation.old;
    }
    return result;
}

} // namespace comch::doca
