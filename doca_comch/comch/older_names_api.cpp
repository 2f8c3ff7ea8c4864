// Comch's calls under the names of its first release, for programs that have not moved on.
#include <doca_comch.h>
#include <doca_comch_consumer.h>
#include <doca_comch_producer.h>

doca_error_t doca_comch_server_get_device_repr(const doca_comch_server* comch_server,
                                               doca_dev_rep** repr) {
    return doca_comch_server_get_device_rep(comch_server, repr);
}

doca_error_t doca_comch_server_event_connection_register(
    doca_comch_server* comch_server,
    doca_comch_event_connection_status_changed_cb_t connect_event_cb,
    doca_comch_event_connection_status_changed_cb_t disconnect_event_cb) {
    return doca_comch_server_event_connection_status_changed_register(
        comch_server, connect_event_cb, disconnect_event_cb);
}

doca_error_t doca_comch_consumer_set_dev_num_recv(doca_comch_consumer* consumer,
                                                  uint32_t dev_num_recv) {
    return doca_comch_consumer_set_dev_max_num_recv(consumer, dev_num_recv);
}

doca_error_t doca_comch_producer_set_dev_num_send(doca_comch_producer* producer,
                                                  uint32_t dev_num_send) {
    return doca_comch_producer_set_dev_max_num_send(producer, dev_num_send);
}
