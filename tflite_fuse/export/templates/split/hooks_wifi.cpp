static void Opened(WiFiClient& client) { client.setNoDelay(true); }

static const Network::Hooks hooks = {Opened, nullptr, $random};
