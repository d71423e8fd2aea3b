try{let t=localStorage.getItem("trainshed.theme");(t==="light"||t==="dark")&&(document.documentElement.dataset.theme=t)}catch{}
