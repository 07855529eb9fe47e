// Stands for the header of this name: HMAC-SHA256 over what came since resetHMAC.
#include <mbedtls/md.h>

#include <vector>

class SHA256 {
 public:
  void resetHMAC(const void*, size_t) { data_.clear(); }
  void update(const void* data, size_t bytes) {
    const uint8_t* from = static_cast<const uint8_t*>(data);
    data_.insert(data_.end(), from, from + bytes);
  }
  void finalizeHMAC(const void* key, size_t key_bytes, void* hash, size_t hash_bytes) {
    if (hash_bytes != 32) abort();
    mbedtls_md_hmac(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), static_cast<const uint8_t*>(key), key_bytes,
                    data_.data(), data_.size(), static_cast<uint8_t*>(hash));
  }

 private:
  std::vector<uint8_t> data_;
};
