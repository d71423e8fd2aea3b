import{b as o}from"./chunk-KNGPIUMO.js";var t=o(Date.now());function e(){setInterval(()=>{document.hidden||(t.value=Date.now())},1e3)}export{t as a,e as b};
