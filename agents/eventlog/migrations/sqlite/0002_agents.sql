-- Which agents have servers is asked often: see Log.Agents.
create index life_agent on life (agent) where reason <> 'deleted';
