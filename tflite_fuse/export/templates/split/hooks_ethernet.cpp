static void Opened(EthernetClient& client) { client.setNoDelay(true); }

static void Written(EthernetClient& client) { client.flush(); }

static const Network::Hooks hooks = {Opened, Written, $random};
