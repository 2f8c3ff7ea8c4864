/*
 * Message queues between this CPU and the DPA: consumers and producers without server, client or
 * connection. A queue has one direction: either its consumers are the DPA's, or its producers are;
 * for both directions make two. Of what is not the DPA's, programs use the calls of
 * doca_comch_consumer.h and doca_comch_producer.h; the DPA's end is used by the DPA application
 * (doca_dpa_dev_comch_msgq.h). Messages are immediate data only.
 */
#ifndef DOCA_COMCH_MSGQ_H_
#define DOCA_COMCH_MSGQ_H_

#include <stdint.h>

#include <doca_comch_consumer.h>
#include <doca_comch_producer.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_comch_msgq;
struct doca_dpa;

DOCA_EXPERIMENTAL doca_error_t doca_comch_msgq_create(struct doca_dev *dev,
                                                      struct doca_comch_msgq **msgq);
/* IN_USE: its consumers or producers are not destroyed. BAD_STATE: it is started. */
DOCA_EXPERIMENTAL doca_error_t doca_comch_msgq_destroy(struct doca_comch_msgq *msgq);

/* Before start: exactly one of the two. BAD_STATE: the other is set. */
DOCA_EXPERIMENTAL doca_error_t doca_comch_msgq_set_dpa_consumer(struct doca_comch_msgq *msgq,
                                                                struct doca_dpa *dpa);
DOCA_EXPERIMENTAL doca_error_t doca_comch_msgq_set_dpa_producer(struct doca_comch_msgq *msgq,
                                                                struct doca_dpa *dpa);
/* Before start. */
DOCA_EXPERIMENTAL doca_error_t doca_comch_msgq_set_max_num_consumers(struct doca_comch_msgq *msgq,
                                                                     uint32_t max_num_consumers);
DOCA_EXPERIMENTAL doca_error_t doca_comch_msgq_set_max_num_producers(struct doca_comch_msgq *msgq,
                                                                     uint32_t max_num_producers);

/* BAD_STATE: started already, or without a direction. */
DOCA_EXPERIMENTAL doca_error_t doca_comch_msgq_start(struct doca_comch_msgq *msgq);
/* IN_USE: its consumers or producers are not destroyed. */
DOCA_EXPERIMENTAL doca_error_t doca_comch_msgq_stop(struct doca_comch_msgq *msgq);

/* Consumers are numbered from 1, in the order of creation. NO_MEMORY: as many producers as may be
 * exist, or as many consumers were created: a number is not given again.
 * BAD_STATE: the queue is not started. */
DOCA_EXPERIMENTAL doca_error_t doca_comch_msgq_consumer_create(
    struct doca_comch_msgq *msgq, struct doca_comch_consumer **consumer);
DOCA_EXPERIMENTAL doca_error_t doca_comch_msgq_producer_create(
    struct doca_comch_msgq *msgq, struct doca_comch_producer **producer);

#ifdef __cplusplus
}
#endif

#endif
