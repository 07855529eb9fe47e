
static void Join() {
$begin  while (!Ethernet.waitForLink(5000)) {
    Serial.println("no cable");
  }
  Serial.println(Ethernet.localIP());
}
