package agents

// OwnCgroup is ownCgroup, for tests that look into the groups of hosts.
var OwnCgroup = ownCgroup
