#include "perftest/fast_worker.hpp"

#include <algorithm>
#include <tuple>

#include "perftest/clock.hpp"
#include "perftest/pinning.hpp"

namespace comch::perftest {
namespace {

/// Acknowledgements come after the answer that overtakes them, and one may be for many messages: a
/// ping-pong has more than one send that is not confirmed.
constexpr std::uint32_t least_in_flight = 64;

} // namespace

FastWorker::FastWorker(const Setup& setup)
    : setup_(setup),
      // A look costs little against 64 KiB, and against 64 small messages.
      look_interval_(setup.load.size >= 65536 ? 1 : 64),
      checker_(setup.client ? Direction::to_client : Direction::to_server, setup.number,
               setup.load.size, setup.plan.verify),
      idle_(setup.plan.sleep) {}

Result<std::unique_ptr<FastWorker>> FastWorker::start(Connection& connection, const Setup& setup) {
    std::unique_ptr<FastWorker> worker(new FastWorker(setup));
    auto engine = ProgressEngine::create();
    if (!engine) {
        return tl::unexpected(std::move(engine.error()));
    }
    worker->engine_ = std::move(*engine);
    const Load& load = setup.load;
    for (auto [wanted, buffers, count] :
         {std::tuple{receives(setup.plan, setup.client), &worker->receive_buffers_, load.buffers},
          std::tuple{sends(setup.plan, setup.client), &worker->send_buffers_,
                     send_buffers(setup.plan, load)}}) {
        if (wanted) {
            auto made = Buffers::create(load.size, count);
            if (!made) {
                return tl::unexpected(std::move(made.error()));
            }
            *buffers = std::move(*made);
        }
    }

    void (*received)(void*, const Received&) = on_data;
    if (setup.plan.mode == Mode::ping_pong) {
        received = setup.client ? on_pong : on_ping;
    }
    auto consumer = Consumer::open(*worker->engine_, connection, {.max_posted = load.posted},
                                   {.user = worker.get(), .received = received});
    if (!consumer) {
        return tl::unexpected(std::move(consumer.error()));
    }
    worker->consumer_ = std::move(*consumer);
    auto producer = Producer::open(*worker->engine_, connection,
                                   {.max_in_flight = std::max(load.window, least_in_flight)},
                                   {.user = worker.get(), .sent = on_sent});
    if (!producer) {
        return tl::unexpected(std::move(producer.error()));
    }
    worker->producer_ = std::move(*producer);
    worker->thread_ = std::thread([self = worker.get()] { self->run(); });
    return worker;
}

FastWorker::~FastWorker() {
    if (thread_.joinable()) {
        give_up_.store(true, std::memory_order_relaxed);
        begin(~std::uint32_t{0});
        thread_.join();
    }
}

void FastWorker::begin(std::uint32_t peer_consumer) noexcept {
    // Relaxed is enough for a number that says all; notify orders itself with the wait.
    std::uint32_t none = 0;
    peer_.compare_exchange_strong(none, peer_consumer, std::memory_order_relaxed);
    peer_.notify_all();
    engine_->wake();
}

void FastWorker::finish(std::uint64_t expected) noexcept {
    expected_.store(expected, std::memory_order_relaxed);
    engine_->wake();
}

void FastWorker::enter(Stage stage) noexcept {
    // Release: what the session's thread reads at this stage was written before.
    stage_.store(stage, std::memory_order_release);
    setup_.main->wake();
}

void FastWorker::fail_with(Error error) {
    if (!failed_) {
        error_ = std::move(error);
        failed_ = true;
    }
}

void FastWorker::fail_with(Errc code, std::string_view what) {
    if (!failed_) {
        fail_with({code, fmt::format("thread {}, {} bytes: {}: {}", setup_.number, setup_.load.size,
                                     what, to_string(code)) +
                             (code == Errc::no_memory
                                  ? ": memory is used up, or descriptors are (ulimit -n)"
                                  : "")});
    }
}

bool FastWorker::given_up() noexcept {
    if (give_up_.load(std::memory_order_relaxed)) [[unlikely]] {
        fail_with({Errc::canceled, "given up"});
    }
    return failed_;
}

void FastWorker::run() {
    ScopedPin pin;
    if (auto pinned = pin.pin(setup_.cpus, setup_.number); !pinned) {
        fail_with(std::move(pinned.error()));
    } else if (open()) {
        enter(Stage::waiting);
        if (wait_for_begin()) {
            enter(Stage::running);
            if (setup_.client) {
                run_client();
            } else {
                run_server();
            }
            drain();
        }
    }
    enter(failed_ ? Stage::failed : Stage::drained);
}

bool FastWorker::open() {
    if (send_buffers_) {
        touch(*send_buffers_);
    }
    while (!given_up() && consumer_->state() == State::starting) {
        if (engine_->progress() == 0 && engine_->arm() == Errc::ok) {
            sleep_on(*engine_);
        }
    }
    if (failed_) {
        return false;
    }
    if (consumer_->state() != State::running) {
        fail_with(Errc::not_connected, "the consumer could not be opened");
        return false;
    }
    if (receive_buffers_) {
        touch(*receive_buffers_);
        for (std::uint32_t i = 0; i < setup_.load.posted; ++i) {
            repost(receive_buffers_->at(i % receive_buffers_->count()));
        }
    }
    return !failed_;
}

/// Makes the memory present, on the thread that uses it. Gigabytes take a while.
void FastWorker::touch(Buffers& buffers) {
    for (std::uint32_t i = 0; i < buffers.count() && !given_up(); ++i) {
        buffers.touch(i);
        activity_.fetch_add(1, std::memory_order_relaxed);
    }
}

bool FastWorker::wait_for_begin() {
    peer_.wait(0, std::memory_order_relaxed);
    to_ = peer_.load(std::memory_order_relaxed);
    return !given_up();
}

void FastWorker::run_client() {
    go(Phase::warm_up, setup_.warm_up);
    if (setup_.goal.messages != 0) {
        settle(); // what the warm-up has sent would be among so many messages
    }
    measured_.round_trips.clear();
    const std::uint64_t received_before = checker_.count();
    measured_.began = Clock::now();
    go(Phase::measurement, setup_.goal);
    measured_.ended = Clock::now();
    measured_.sent = done() - began_with_;
    measured_.received = setup_.plan.mode == Mode::two_way ? checker_.count() - received_before : 0;
    settle();
    if (!failed_) {
        enter(Stage::measured);
    }
}

void FastWorker::go(Phase phase, const Amount& amount) {
    phase_.store(phase, std::memory_order_relaxed);
    began_with_ = done();
    goal_ = amount.seconds > 0 ? no_limit : began_with_ + amount.messages;
    deadline_ = amount.seconds > 0 ? Clock::now() + Clock::ticks(amount.seconds) : no_limit;
    finished_ = false;
    if (setup_.plan.mode == Mode::ping_pong) {
        ping();
    } else {
        stream();
    }
    show();
}

void FastWorker::ping() {
    if (done() == goal_ || failed_) {
        return;
    }
    round_trip_began_ = Clock::now();
    reply();
    while (!finished_ && !failed_) {
        if (owed_ != 0) [[unlikely]] {
            retry_replies();
        }
        step();
    }
}

void FastWorker::stream() {
    while (completed_ < goal_ && !finished_ && !failed_) {
        send_burst();
        step();
    }
}

/// Until all that was sent has arrived.
void FastWorker::settle() {
    while (completed_ != submitted_ && !failed_) {
        step();
    }
}

void FastWorker::run_server() {
    goal_ = deadline_ = no_limit;
    const bool sends = setup_.plan.mode == Mode::two_way;
    while (!failed_ && expected_.load(std::memory_order_relaxed) == no_limit) {
        if (sends) {
            send_burst();
        } else if (owed_ != 0) [[unlikely]] {
            retry_replies();
        }
        step();
    }
}

void FastWorker::drain() {
    deadline_ = no_limit;
    for (;;) {
        const std::uint64_t expected = expected_.load(std::memory_order_relaxed);
        if (checker_.count() > expected) {
            fail_with({Errc::io, fmt::format("thread {}: {} messages arrived of {} that were sent",
                                             setup_.number, checker_.count(), expected)});
        }
        if (failed_ || (checker_.count() == expected && completed_ == submitted_ && owed_ == 0)) {
            return;
        }
        if (owed_ != 0) {
            retry_replies();
        }
        step();
    }
}

// ---- per message --------------------------------------------------------------------------------

/// What goals count: round trips, or what was sent and has arrived.
std::uint64_t FastWorker::done() const noexcept {
    return setup_.plan.mode == Mode::ping_pong ? checker_.count() : completed_;
}

void FastWorker::show() noexcept {
    activity_.store(completed_ + checker_.count(), std::memory_order_relaxed);
    const Phase phase = phase_.load(std::memory_order_relaxed);
    shown_[static_cast<std::size_t>(phase)].store(done() - began_with_, std::memory_order_relaxed);
}

bool FastWorker::send_one(bool more) noexcept {
    std::byte* const data = send_buffers_->at(next_send_);
    if (setup_.plan.verify && !filled_) [[unlikely]] {
        pattern::fill({data, setup_.load.size},
                      pattern::seed(setup_.client ? Direction::to_server : Direction::to_client,
                                    setup_.number, submitted_));
        filled_ = true;
    }
    const Errc result = producer_->send(
        to_, {.data = {data, setup_.load.size}, .memory = send_buffers_->map(), .more = more},
        nullptr);
    if (result == Errc::ok) [[likely]] {
        ++submitted_;
        filled_ = false;
        if (++next_send_ == send_buffers_->count()) {
            next_send_ = 0;
        }
        return true;
    }
    if (result != Errc::again) [[unlikely]] {
        fail_with(result, "cannot send");
    }
    return false;
}

void FastWorker::send_burst() noexcept {
    for (unsigned i = 0;
         i < burst && submitted_ - completed_ < setup_.load.window && submitted_ < goal_; ++i) {
        if (!send_one(true)) { // progress follows at once, which is a flush
            return;
        }
    }
}

/// A verified message gets new content, so the send before must be over; any other may share it.
bool FastWorker::may_reuse() const noexcept {
    return !setup_.plan.verify || submitted_ - completed_ < send_buffers_->count();
}

void FastWorker::reply() noexcept {
    if (owed_ != 0 || !may_reuse() || !send_one()) [[unlikely]] {
        ++owed_;
    }
}

void FastWorker::retry_replies() noexcept {
    while (owed_ != 0 && may_reuse() && send_one()) {
        --owed_;
    }
}

void FastWorker::step() noexcept {
    if (idle_.progress(*engine_, look_interval_)) [[unlikely]] {
        look();
    }
}

/// What need not be done for every message.
void FastWorker::look() noexcept {
    show();
    if (deadline_ != no_limit && Clock::now() >= deadline_ && setup_.plan.mode != Mode::ping_pong) {
        finished_ = true;
    }
    (void)given_up();
}

bool FastWorker::take(const Received& received) noexcept {
    if (received.status != Errc::ok) [[unlikely]] {
        fail_with(received.status, "cannot receive");
        return false;
    }
    checker_.check(
        {static_cast<const std::byte*>(received.cookie) + received.offset, received.length});
    return true;
}

void FastWorker::repost(void* cookie) noexcept {
    const Errc result = consumer_->post({.address = static_cast<std::byte*>(cookie),
                                         .capacity = setup_.load.size,
                                         .length = 0,
                                         .memory = receive_buffers_->map()},
                                        cookie);
    if (result != Errc::ok) [[unlikely]] {
        fail_with(result, "cannot post a buffer");
    }
}

void FastWorker::on_sent(void* user, void* /*cookie*/, Errc status) noexcept {
    auto& self = *static_cast<FastWorker*>(user);
    if (status != Errc::ok) [[unlikely]] {
        self.fail_with(status, "a message did not arrive");
        return;
    }
    ++self.completed_;
}

void FastWorker::on_data(void* user, const Received& received) noexcept {
    auto& self = *static_cast<FastWorker*>(user);
    if (self.take(received)) [[likely]] {
        self.repost(received.cookie);
    }
}

void FastWorker::on_ping(void* user, const Received& received) noexcept {
    auto& self = *static_cast<FastWorker*>(user);
    if (self.take(received)) [[likely]] {
        self.reply();
        self.repost(received.cookie);
    }
}

void FastWorker::on_pong(void* user, const Received& received) noexcept {
    auto& self = *static_cast<FastWorker*>(user);
    const std::uint64_t now = Clock::now();
    if (!self.take(received)) [[unlikely]] {
        return;
    }
    self.measured_.round_trips.record(now - self.round_trip_began_);
    if (self.checker_.count() >= self.goal_ || now >= self.deadline_) [[unlikely]] {
        self.finished_ = true;
    } else {
        // Making and comparing a verified message is not part of its way.
        self.round_trip_began_ = self.setup_.plan.verify ? Clock::now() : now;
        self.reply();
    }
    self.repost(received.cookie);
}

} // namespace comch::perftest
