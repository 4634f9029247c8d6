// TLS, ECDSA and digests (Debian: libssl-dev).
#ifndef HERALD_COPENSSL_H
#define HERALD_COPENSSL_H
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

// Macros, which Swift does not import.
static inline long herald_ssl_set_host_name(SSL *ssl, const char *name) {
  return SSL_set_tlsext_host_name(ssl, name);
}
static inline int herald_ssl_ctx_set_min_tls12(SSL_CTX *context) {
  return (int)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
}
static inline long herald_ssl_ctx_set_mode(SSL_CTX *context, long mode) {
  return SSL_CTX_set_mode(context, mode);
}
static inline long herald_ssl_ctx_set_session_cache_mode(SSL_CTX *context, long mode) {
  return SSL_CTX_set_session_cache_mode(context, mode);
}
static inline long herald_bio_ctrl_reset(BIO *bio) { return BIO_reset(bio); }
static inline void herald_bio_set_retry_read(BIO *bio) {
  BIO_clear_retry_flags(bio);
  BIO_set_retry_read(bio);
}
static inline void herald_bio_clear_retry(BIO *bio) { BIO_clear_retry_flags(bio); }
static inline long herald_bio_pending(BIO *bio) { return (long)BIO_pending(bio); }
static inline uint64_t herald_ssl_ctx_forbid_renegotiation(SSL_CTX *context) {
  return SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
}
static inline long herald_ssl_ctx_accept_moving_buffers(SSL_CTX *context) {
  return SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}
static inline long herald_ssl_ctx_keep_client_sessions_outside(SSL_CTX *context) {
  return SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
}
static inline long herald_ssl_ctx_add_chain_certificate(SSL_CTX *context, X509 *certificate) {
  return SSL_CTX_add1_chain_cert(context, certificate);
}
static inline int herald_bio_type_source_sink(void) { return BIO_TYPE_SOURCE_SINK; }
static inline long herald_bio_memory(BIO *bio, char **bytes) { return BIO_get_mem_data(bio, bytes); }
static inline EVP_PKEY *herald_evp_generate_p256(void) { return EVP_EC_gen("P-256"); }
static inline int herald_x509_stack_count(const STACK_OF(X509) *stack) {
  return stack == NULL ? 0 : sk_X509_num(stack);
}
static inline X509 *herald_x509_stack_value(const STACK_OF(X509) *stack, int index) {
  return sk_X509_value(stack, index);
}
static inline void herald_x509_stack_free(STACK_OF(X509) *stack) { sk_X509_pop_free(stack, X509_free); }
static inline int herald_x509_name_print(BIO *bio, const X509_NAME *name) {
  return X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
}
static inline int herald_general_names_count(const GENERAL_NAMES *names) { return sk_GENERAL_NAME_num(names); }
// The DNS name at `index`, or NULL where that is a name of another kind.
static inline const ASN1_STRING *herald_general_names_dns(const GENERAL_NAMES *names, int index) {
  const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, index);
  return name->type == GEN_DNS ? name->d.dNSName : NULL;
}
#endif
