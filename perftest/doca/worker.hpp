// A consumer and a producer on an engine of their own, and the loops that are measured: what
// FastWorker is to the core, through the DOCA API.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <doca_buf_inventory.h>
#include <doca_comch_consumer.h>
#include <doca_comch_producer.h>
#include <doca_mmap.h>

#include "perftest/buffers.hpp"
#include "perftest/doca/end.hpp"
#include "perftest/give_way.hpp"
#include "perftest/histogram.hpp"
#include "perftest/plan.hpp"

namespace comch::perftest {

class DocaWorker {
public:
    struct Measured {
        double seconds = 0;
        Histogram round_trips; ///< in ticks
    };

    /// On a connection. Both know each other's consumer when this has returned.
    DocaWorker(DocaEnd& end, const Plan& plan, const Load& load);
    ~DocaWorker();
    DocaWorker(const DocaWorker&) = delete;
    DocaWorker& operator=(const DocaWorker&) = delete;

    /// The client: so many messages, of which the first are not measured.
    [[nodiscard]] Measured run(std::uint64_t warm_up, std::uint64_t messages);
    /// The server: until as many have come.
    void serve(std::uint64_t messages);

private:
    /// Pieces of one range of memory, registered.
    struct Memory {
        std::unique_ptr<Buffers> buffers;
        doca_mmap* map = nullptr;

        void create(doca_dev* device, std::uint64_t size, std::uint32_t count);
    };

    void create_consumer();
    void create_producer();
    void post_all();
    void allocate_sends();
    void send();
    void send_burst();
    void note_round_trip();
    void ping(std::uint64_t goal, Histogram& round_trips);
    void stream(std::uint64_t goal);
    void progress();
    void note_flushed(doca_task* task);

    static void on_received(doca_comch_consumer_task_post_recv* task, doca_data, doca_data self);
    static void on_sent(doca_comch_producer_task_send* task, doca_data, doca_data self);
    static void on_post_failed(doca_comch_consumer_task_post_recv*, doca_data, doca_data self);
    static void on_send_failed(doca_comch_producer_task_send*, doca_data, doca_data self);

    DocaEnd& end_;
    const Plan plan_;
    const Load load_;
    doca_pe* pe_ = nullptr;
    doca_buf_inventory* inventory_ = nullptr;
    Memory receive_memory_;
    Memory send_memory_;
    doca_comch_consumer* consumer_ = nullptr;
    doca_comch_producer* producer_ = nullptr;
    std::vector<doca_task*> receives_;
    std::vector<doca_buf*> buffers_;
    std::vector<doca_task*> idle_sends_; ///< allocated, not submitted
    std::uint64_t looks_ = 0;
    GiveWay give_way_;
    std::uint64_t submitted_ = 0;
    std::uint64_t completed_ = 0;
    std::uint64_t received_ = 0;
    std::uint64_t owed_ = 0; ///< answers
    std::uint64_t goal_ = 0;
    std::uint64_t round_trip_began_ = 0;
    Histogram* round_trips_ = nullptr; ///< while they are measured
    bool answers_ = false;
    bool stops_ = false;
    doca_error_t failure_ = DOCA_SUCCESS; ///< in a callback
};

} // namespace comch::perftest
