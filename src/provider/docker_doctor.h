/* docker_doctor.h: what `scb doctor` says of an engine that can be used. */
#pragma once

#include "provider/docker_facts.h"
#include "provider/provider.h"

/* Fills ret->reason: version, image, what a restart does, and how it would be stronger. */
void docker_doctor(const struct docker_facts *f, struct provider_probe *ret);
