package agents

const originACP = "acp"
