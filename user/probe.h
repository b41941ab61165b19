/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Can this kernel enforce? Features are probed, versions are never compared.
 */
#ifndef RF_USER_PROBE_H
#define RF_USER_PROBE_H

#include "policy/diag.h"

/*
 * 0, or -EOPNOTSUPP with one error for each thing that is missing and how to get
 * it. What only shows when the programs run is checked after they are attached.
 */
int rf_probe(struct rf_diags *diags);

#endif
