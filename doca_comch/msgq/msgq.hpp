// Message queues, and the contexts that use them on the CPU and on the DPA.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <doca_comch_msgq.h>

#include "doca_comch/comch/consumer.hpp"
#include "doca_comch/comch/producer.hpp"
#include "doca_comch/dpa/dpa.hpp"
#include "doca_comch/msgq/queue_end.hpp"

struct doca_comch_msgq {
public:
    ~doca_comch_msgq() {
        if (dpa != nullptr) {
            --dpa->users;
        }
    }

    /// Makes the next consumer, which `make` creates for its end; null: as many as may be exist.
    /// Ends live until the queue's next start.
    template <class Make> [[nodiscard]] auto add_consumer(Make make) {
        const std::lock_guard lock(mutex_);
        if (made_.size() >= ends_.size()) {
            return decltype(make(*made_[0])){nullptr};
        }
        auto end = std::make_unique<comch::doca::QueueEnd>(
            static_cast<std::uint32_t>(made_.size() + 1), sleeping_producers);
        auto* const consumer = make(*end);
        ends_[made_.size()].store(end.get(), std::memory_order_release);
        made_.push_back(std::move(end)); // has room
        return consumer;
    }
    /// The consumer with this id, or null. Any thread.
    [[nodiscard]] comch::doca::QueueEnd* find(std::uint32_t id) const noexcept;

    doca_dpa* dpa = nullptr;
    bool dpa_consumes = false; ///< else it produces
    bool started = false;
    std::uint32_t max_consumers = 64;
    std::uint32_t max_producers = 64;
    std::uint32_t producers = 0;                     ///< created so far
    std::atomic<std::uint32_t> living_producers = 0; ///< of them, not destroyed
    std::atomic<std::uint32_t> users = 0; ///< consumers and producers that are not destroyed
    comch::doca::SleepingProducers sleeping_producers;

private:
    mutable std::mutex mutex_; ///< guards adding
    std::vector<std::unique_ptr<comch::doca::QueueEnd>> made_;
    std::vector<std::atomic<comch::doca::QueueEnd*>> ends_; ///< by id - 1, sized by the first
    friend doca_error_t doca_comch_msgq_start(doca_comch_msgq*);
};

/// Where the completions of DPA consumers go. The DPA thread's, once started.
struct doca_comch_consumer_completion {
    struct Element {
        comch::doca::QueueMessage message;
        std::uint32_t consumer_data = 0;
    };
    /// The CPU adds and removes them, the DPA's thread looks.
    struct Source {
        std::atomic<comch::doca::QueueEnd*> end = nullptr;
        std::uint32_t user_data = 0;
    };

    doca_dpa_thread* thread = nullptr;
    std::uint32_t max_consumers = 1;
    std::uint32_t max_receives = 1024;
    std::uint32_t immediate_length = comch::limits::immediate_data_size;
    bool started = false;
    std::uint32_t used = 0;               ///< sources
    std::atomic<std::uint32_t> users = 0; ///< consumers that were given it
    std::unique_ptr<Source[]> sources;
    std::unique_ptr<Element[]> elements;
    std::uint64_t got = 0;
    std::uint64_t acknowledged = 0;
    std::uint32_t next = 0; ///< whose turn it is

    [[nodiscard]] bool add(comch::doca::QueueEnd& end, std::uint32_t user_data);
    void remove(const comch::doca::QueueEnd& end);
    [[nodiscard]] Element* get();
    void request_notification();
    /// Runs the thread, once for each request.
    void notify();

private:
    std::atomic<bool> requested_ = false;
};

namespace comch::doca {

class QueueProducer final : public ProducerContext, private ProgressSource {
public:
    QueueProducer(doca_comch_msgq& queue, std::uint32_t id);
    ~QueueProducer() override {
        --queue_.living_producers;
        --queue_.users;
    }

    [[nodiscard]] std::uint32_t id() const noexcept override { return id_; }

private:
    doca_error_t begin_start() override;
    doca_error_t begin_stop() override { return DOCA_SUCCESS; }
    bool drained() const noexcept override { return done_ == nullptr; }
    bool stops_at_once() const noexcept override { return true; }
    unsigned drain() override { return report_done(); }
    void closed() override;

    [[nodiscard]] static doca_error_t begin_send(doca_task& task);
    [[nodiscard]] unsigned report_done();
    [[nodiscard]] unsigned progress();
    [[nodiscard]] Errc arm();

    doca_comch_msgq& queue_;
    const std::uint32_t id_;
    doca_task* done_ = nullptr; ///< sent, to be reported, oldest first
    doca_task** done_end_ = &done_;
    std::vector<QueueEnd*> refused_; ///< where the last send found no credit, and the program waits
};

class QueueConsumer final : public ConsumerContext, private ProgressSource {
public:
    QueueConsumer(doca_comch_msgq& queue, QueueEnd& end);
    ~QueueConsumer() override { --queue_.users; }

    [[nodiscard]] std::uint32_t id() const noexcept override { return end_.id(); }

private:
    doca_error_t begin_start() override;
    doca_error_t begin_stop() override;
    bool drained() const noexcept override { return posted_ == nullptr; }
    bool stops_at_once() const noexcept override { return true; }
    unsigned drain() override;
    void closed() override { pe()->engine().remove(*this); }

    [[nodiscard]] static doca_error_t begin_post(doca_task& task);
    [[nodiscard]] ConsumerTask& pop_posted();
    [[nodiscard]] unsigned receive();

    doca_comch_msgq& queue_;
    QueueEnd& end_;
    doca_task* posted_ = nullptr; ///< oldest first
    doca_task** posted_end_ = &posted_;
};

/// The DPA's end, for the CPU: it configures, starts and stops it.
class DpaProducer final : public ProducerContext {
public:
    DpaProducer(doca_comch_msgq& queue, std::uint32_t id) : queue_(queue), id_(id) {
        ++queue_.living_producers;
        ++queue_.users;
    }
    ~DpaProducer() override;

    [[nodiscard]] std::uint32_t id() const noexcept override { return id_; }
    doca_error_t set_dpa(doca_dpa* dpa) override;
    doca_error_t set_dpa_sends(std::uint32_t count) override;
    doca_error_t attach_dpa_completion(doca_dpa_completion* completion) override;
    doca_error_t dpa_handle(std::uint64_t* handle) override;

    // ---- the DPA's thread

    /// Sends, and tells the completion.
    void send(std::uint32_t consumer, std::span<const std::byte> immediate, std::uint32_t flags);
    /// What the program wanted cannot be done: the completion is told.
    void fail_send();
    [[nodiscard]] bool is_empty(std::uint32_t consumer) const;

private:
    doca_error_t begin_start() override;
    doca_error_t begin_stop() override;
    bool drained() const noexcept override { return true; }
    bool needs_engine() const noexcept override { return false; }

    doca_comch_msgq& queue_;
    const std::uint32_t id_;
    bool on_dpa_ = false;
    std::uint32_t sends_ = 0;
    doca_dpa_completion* completion_ = nullptr;
    std::atomic<bool> open_ = false;
    std::atomic<std::uint32_t> unreported_ = 0; ///< sends whose completions come with the next's
};

class DpaConsumer final : public ConsumerContext {
public:
    DpaConsumer(doca_comch_msgq& queue, QueueEnd& end) : queue_(queue), end_(end) {
        ++queue_.users;
    }
    ~DpaConsumer() override;

    [[nodiscard]] std::uint32_t id() const noexcept override { return end_.id(); }
    doca_error_t set_dpa(doca_dpa* dpa) override;
    doca_error_t set_dpa_receives(std::uint32_t count) override;
    doca_error_t set_completion(doca_comch_consumer_completion* completion,
                                std::uint32_t user_data) override;
    doca_error_t dpa_handle(std::uint64_t* handle) override;

private:
    doca_error_t begin_start() override;
    doca_error_t begin_stop() override;
    bool drained() const noexcept override { return true; }
    bool needs_engine() const noexcept override { return false; }

    doca_comch_msgq& queue_;
    QueueEnd& end_;
    bool on_dpa_ = false;
    std::uint32_t receives_ = 0;
    doca_comch_consumer_completion* completion_ = nullptr;
    std::uint32_t completion_data_ = 0;
};

} // namespace comch::doca
