function r(n,o,c){let t=URL.createObjectURL(new Blob([c],{type:o})),e=document.createElement("a");e.href=t,e.download=n,e.click(),setTimeout(()=>URL.revokeObjectURL(t),1e4)}export{r as a};
