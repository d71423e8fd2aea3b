function t(r,e){let o=e?.document.trainingInput;return r.name.includes("/hyperparameterTuningJobs/")||e?.kind==="TUNING_JOB"||o?.hyperparameters!==void 0}export{t as a};
