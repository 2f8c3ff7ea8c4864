// A DPA with a message queue in each direction, for the tests of this folder.
#pragma once

#include <string>
#include <vector>

#include <doca_comch_msgq.h>
#include <doca_dpa.h>
#include <doca_dpa_dev_comch_msgq.h>

#include "doca_comch/comch/test_support.hpp"

namespace comch::doca::test {

struct Dpa {
    Lab lab;
    Engine engine;
    doca_dpa* dpa = nullptr;
    doca_dpa_thread* thread = nullptr;
    doca_comch_msgq* to_dpa = nullptr;
    doca_comch_msgq* from_dpa = nullptr;

    Dpa() {
        EXPECT_OK(doca_dpa_create(lab.dpu, &dpa));
        EXPECT_OK(doca_dpa_start(dpa));
        EXPECT_OK(doca_dpa_thread_create(dpa, &thread));
        EXPECT_OK(doca_comch_msgq_create(lab.dpu, &to_dpa));
        EXPECT_OK(doca_comch_msgq_set_dpa_consumer(to_dpa, dpa));
        EXPECT_OK(doca_comch_msgq_start(to_dpa));
        EXPECT_OK(doca_comch_msgq_create(lab.dpu, &from_dpa));
        EXPECT_OK(doca_comch_msgq_set_dpa_producer(from_dpa, dpa));
        EXPECT_OK(doca_comch_msgq_start(from_dpa));
    }
    ~Dpa() {
        for (doca_comch_msgq* queue : {to_dpa, from_dpa}) {
            EXPECT_OK(doca_comch_msgq_stop(queue));
            EXPECT_OK(doca_comch_msgq_destroy(queue));
        }
        EXPECT_EQ(doca_dpa_destroy(dpa), DOCA_ERROR_IN_USE);
        EXPECT_OK(doca_dpa_thread_destroy(thread));
        EXPECT_OK(doca_dpa_stop(dpa));
        EXPECT_OK(doca_dpa_destroy(dpa));
    }
};

struct Received {
    std::vector<std::string> messages;
    std::vector<doca_error_t> failures;
    std::vector<doca_error_t> sends;
};

inline void on_received(doca_comch_consumer_task_post_recv* task, doca_data, doca_data user) {
    auto& self = *static_cast<Received*>(user.ptr);
    self.messages.emplace_back(
        reinterpret_cast<const char*>(doca_comch_consumer_task_post_recv_get_imm_data(task)),
        doca_comch_consumer_task_post_recv_get_imm_data_len(task));
    EXPECT_EQ(doca_comch_consumer_task_post_recv_get_buf(task), nullptr);
    EXPECT_OK(doca_task_submit(doca_comch_consumer_task_post_recv_as_task(task)));
}
inline void on_receive_failed(doca_comch_consumer_task_post_recv* task, doca_data, doca_data user) {
    doca_task* const base = doca_comch_consumer_task_post_recv_as_task(task);
    static_cast<Received*>(user.ptr)->failures.push_back(doca_task_get_status(base));
    doca_task_free(base);
}
inline void on_sent(doca_comch_producer_task_send* task, doca_data, doca_data user) {
    doca_task* const base = doca_comch_producer_task_send_as_task(task);
    static_cast<Received*>(user.ptr)->sends.push_back(doca_task_get_status(base));
    doca_task_free(base);
}

} // namespace comch::doca::test
