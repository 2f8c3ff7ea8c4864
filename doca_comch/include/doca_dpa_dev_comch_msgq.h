/* Message queues as programs on the DPA use them. */
#ifndef DOCA_DPA_DEV_COMCH_MSGQ_H_
#define DOCA_DPA_DEV_COMCH_MSGQ_H_

#include <stddef.h>
#include <stdint.h>

#include <doca_comch_consumer.h>
#include <doca_comch_producer.h>
#include <doca_dpa_dev.h>
#include <doca_mmap.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t doca_dpa_dev_comch_consumer_completion_element_t;

/* Lets `num_msg` more messages in. */
DOCA_EXPERIMENTAL void doca_dpa_dev_comch_consumer_ack(doca_dpa_dev_comch_consumer_t consumer,
                                                       uint32_t num_msg);

/* The next message that came to a consumer of the completion; 1 if there is one, else 0. */
DOCA_EXPERIMENTAL int doca_dpa_dev_comch_consumer_get_completion(
    doca_dpa_dev_comch_consumer_completion_t consumer_comp_handle,
    doca_dpa_dev_comch_consumer_completion_element_t *comp_element);
/* Valid until the completion is acknowledged. */
DOCA_EXPERIMENTAL const uint8_t *doca_dpa_dev_comch_consumer_get_completion_imm(
    doca_dpa_dev_comch_consumer_completion_element_t comp_element, uint32_t *imm_length);
DOCA_EXPERIMENTAL uint32_t doca_dpa_dev_comch_consumer_get_completion_producer_id(
    doca_dpa_dev_comch_consumer_completion_element_t comp_element);
/* The program is done with `num_comp` of what it got. */
DOCA_EXPERIMENTAL void doca_dpa_dev_comch_consumer_completion_ack(
    doca_dpa_dev_comch_consumer_completion_t consumer_comp_handle, uint64_t num_comp);
/* Runs the completion's thread again when there is a message, at once if there is one now. (For the
 * first message it runs without being asked.) */
DOCA_EXPERIMENTAL void doca_dpa_dev_comch_consumer_completion_request_notification(
    doca_dpa_dev_comch_consumer_completion_t consumer_comp_handle);

/* 1: the consumer has nothing posted. */
DOCA_EXPERIMENTAL int doca_dpa_dev_comch_producer_is_consumer_empty(
    doca_dpa_dev_comch_producer_t producer, uint32_t consumer_id);
/* Sends immediate data. The producer's completion tells of it (doca_dpa_dev.h): as on the device,
 * what finds no room is lost, a DOCA_DPA_DEV_COMP_SEND_ERR; ask is_consumer_empty. `flags` are those
 * of doca_dpa_dev_submit_flag. */
DOCA_EXPERIMENTAL void doca_dpa_dev_comch_producer_post_send_imm_only(
    doca_dpa_dev_comch_producer_t producer, uint32_t consumer_id, const uint8_t *imm,
    uint32_t imm_length, uint32_t flags);
/* Copies between two memory maps, of which one may be imported, then sends immediate data. What cannot
 * be copied is not told of: a DOCA_DPA_DEV_COMP_SEND_ERR. */
DOCA_EXPERIMENTAL void doca_dpa_dev_comch_producer_dma_copy(
    doca_dpa_dev_comch_producer_t producer, uint32_t consumer_id, doca_dpa_dev_mmap_t dst_mmap,
    uint64_t dst_addr, doca_dpa_dev_mmap_t src_mmap, uint64_t src_addr, size_t length,
    const uint8_t *imm, uint32_t imm_length, uint32_t flags);

#ifdef __cplusplus
}
#endif

#endif
