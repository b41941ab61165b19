/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a session's word to its policy's image. The verifier bounds an access by the
 * image's size, so whatever reads one exists once for each size class.
 */
#ifndef RF_BPF_IMAGE_H
#define RF_BPF_IMAGE_H

#include "bpf/maps.bpf.h"

#define RF_IMAGE_IN(suffix)                                                                        \
	static __always_inline struct rf_image_##suffix *image_##suffix(__u32 slot)                \
	{                                                                                          \
		void *inner = bpf_map_lookup_elem(&images_##suffix, &slot);                        \
		__u32 zero = 0;                                                                    \
                                                                                                   \
		return inner ? bpf_map_lookup_elem(inner, &zero) : NULL;                           \
	}

RF_IMAGE_IN(16k)
RF_IMAGE_IN(128k)
RF_IMAGE_IN(1m)
RF_IMAGE_IN(4m)

/*
 * Call function_SUFFIX(image, argument) on the image that `word` names, SUFFIX being its
 * class. Not called if there is no such image: say so in the verdict beforehand.
 */
#define with_image(word, function, argument)                                                       \
	do {                                                                                       \
		__u32 slot_ = RF_WORD_SLOT(word);                                                  \
                                                                                                   \
		switch (RF_WORD_CLASS(word)) {                                                     \
		case RF_CLASS_16K:                                                                 \
			with_image_in(16k, slot_, function, argument);                             \
			break;                                                                     \
		case RF_CLASS_128K:                                                                \
			with_image_in(128k, slot_, function, argument);                            \
			break;                                                                     \
		case RF_CLASS_1M:                                                                  \
			with_image_in(1m, slot_, function, argument);                              \
			break;                                                                     \
		case RF_CLASS_4M:                                                                  \
			with_image_in(4m, slot_, function, argument);                              \
			break;                                                                     \
		}                                                                                  \
	} while (0)

#define with_image_in(suffix, slot, function, argument)                                            \
	do {                                                                                       \
		struct rf_image_##suffix *image_ = image_##suffix(slot);                           \
                                                                                                   \
		if (image_)                                                                        \
			function##_##suffix(image_, argument);                                     \
	} while (0)

#endif
