// One thread of a round on the fast path: an engine, a consumer and a producer of its own. The
// session's thread makes it, tells it when to begin and what to wait for, and reads how far it is;
// on its data path a worker touches nothing that another thread writes meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>

#include <comch/consumer.hpp>
#include <comch/producer.hpp>
#include <comch/progress.hpp>

#include "perftest/buffers.hpp"
#include "perftest/content.hpp"
#include "perftest/idle.hpp"
#include "perftest/progress_line.hpp"
#include "perftest/result.hpp"
#include "perftest/values.hpp"

namespace comch::perftest {

class FastWorker {
public:
    struct Setup {
        Plan plan;
        Load load;
        bool client = false;
        std::uint32_t number = 0;
        std::vector<std::uint32_t> cpus; ///< this one's is by its number; none: anywhere
        Amount warm_up{};                ///< client
        Amount goal{};                   ///< client
        ProgressEngine* main = nullptr;  ///< woken when the stage changes
    };

    enum class Stage : std::uint8_t {
        opening,  ///< its consumer is not known yet
        waiting,  ///< for begin()
        running,  ///< messages flow
        measured, ///< client: all that was to be measured is, and has arrived
        drained,  ///< what finish() said has arrived
        failed,   ///< see error()
    };

    /// What the client measured; to be read from `measured` on.
    struct Measured {
        std::uint64_t began = 0; ///< ticks
        std::uint64_t ended = 0;
        std::uint64_t sent = 0;
        std::uint64_t received = 0;
        Histogram round_trips;
    };

    /// Opens everything here, in the thread that owns the connection, and starts the thread.
    [[nodiscard]] static Result<std::unique_ptr<FastWorker>> start(Connection& connection,
                                                                   const Setup& setup);
    /// Ends the thread, whatever it is doing.
    ~FastWorker();
    FastWorker(const FastWorker&) = delete;
    FastWorker& operator=(const FastWorker&) = delete;

    // ---- for the session's thread

    [[nodiscard]] Stage stage() const noexcept { return stage_.load(std::memory_order_acquire); }
    [[nodiscard]] std::uint32_t consumer() const noexcept { return consumer_->id(); }
    /// Changes while things go on.
    [[nodiscard]] std::uint64_t activity() const noexcept {
        return activity_.load(std::memory_order_relaxed);
    }
    /// Client: what it is at, and how much it has done in that phase, in what the goal counts; now
    /// and then brought up to date.
    [[nodiscard]] Phase phase() const noexcept { return phase_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t done(Phase phase) const noexcept {
        return shown_[static_cast<std::size_t>(phase)].load(std::memory_order_relaxed);
    }
    /// Where to send to. From `waiting` on.
    void begin(std::uint32_t peer_consumer) noexcept;
    /// So many come in all; who sends by himself stops.
    void finish(std::uint64_t expected) noexcept;

    [[nodiscard]] const Error& error() const noexcept { return error_; }
    [[nodiscard]] const Measured& measured() const noexcept { return measured_; }
    /// To be read from `measured` (client) or `drained` on.
    [[nodiscard]] std::uint64_t sent() const noexcept { return submitted_; }
    [[nodiscard]] std::uint64_t received() const noexcept { return checker_.count(); }
    [[nodiscard]] Wrong wrong() const { return checker_.wrong(); }

private:
    static constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();
    /// Messages sent between two progress calls, at most.
    static constexpr unsigned burst = 16;

    explicit FastWorker(const Setup& setup);

    void run();
    void enter(Stage stage) noexcept;
    void fail_with(Error error);
    void fail_with(Errc code, std::string_view what);
    [[nodiscard]] bool given_up() noexcept;

    // the thread's parts, in their order; false: over
    [[nodiscard]] bool open();
    [[nodiscard]] bool wait_for_begin();
    void touch(Buffers& buffers);
    void run_client();
    void go(Phase phase, const Amount& amount);
    void run_server();
    void drain();

    void ping();
    void stream();
    void settle();

    // per message
    [[nodiscard]] std::uint64_t done() const noexcept;
    void show() noexcept;
    [[nodiscard]] bool send_one(bool more = false) noexcept;
    void send_burst() noexcept;
    [[nodiscard]] bool may_reuse() const noexcept;
    void reply() noexcept;
    void retry_replies() noexcept;
    void step() noexcept;
    void look() noexcept;
    [[nodiscard]] bool take(const Received& received) noexcept;
    void repost(void* cookie) noexcept;

    static void on_sent(void* user, void* cookie, Errc status) noexcept;
    static void on_data(void* user, const Received& received) noexcept;
    static void on_ping(void* user, const Received& received) noexcept;
    static void on_pong(void* user, const Received& received) noexcept;

    // ---- shared with the session's thread: seldom written, apart from what the loops write

    std::atomic<Stage> stage_{Stage::opening};
    std::atomic<std::uint32_t> peer_{0};            ///< 0 until begin()
    std::atomic<std::uint64_t> expected_{no_limit}; ///< until finish()
    std::atomic<bool> give_up_{false};

    alignas(64) std::atomic<std::uint64_t> activity_{0};
    std::atomic<Phase> phase_{Phase::warm_up};
    std::array<std::atomic<std::uint64_t>, 2> shown_{}; ///< by phase

    // ---- the thread's own

    alignas(64) Setup setup_;
    unsigned look_interval_;
    std::unique_ptr<ProgressEngine> engine_; ///< first: destroyed after what is on it
    std::unique_ptr<Buffers> receive_buffers_;
    std::unique_ptr<Buffers> send_buffers_;
    std::unique_ptr<Consumer> consumer_;
    std::unique_ptr<Producer> producer_;
    Checker checker_;
    Idle idle_;
    std::uint32_t to_ = 0;          ///< the consumer that is sent to
    std::uint32_t next_send_ = 0;   ///< buffer
    bool filled_ = false;           ///< that buffer has its content already
    std::uint64_t submitted_ = 0;   ///< sends accepted
    std::uint64_t completed_ = 0;   ///< and arrived
    std::uint64_t owed_ = 0;        ///< replies that found no room
    std::uint64_t began_with_ = 0;  ///< done() when the phase began
    std::uint64_t goal_ = no_limit; ///< of done()
    std::uint64_t deadline_ = no_limit;
    std::uint64_t round_trip_began_ = 0;
    bool finished_ = false; ///< the goal is reached
    bool failed_ = false;
    Error error_;
    Measured measured_;
    std::thread thread_; ///< last: uses all of the above
};

} // namespace comch::perftest
