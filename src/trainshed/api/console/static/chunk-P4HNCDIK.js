function c(n,e){let r=0,t=e-1;for(let o of n){if(t<=0)break;t-=1,r+=o.length}return r}function u(n,{line:e,column:r}){let t=0;for(let i=1;i<e;i+=1){let f=n.indexOf(`
`,t);if(f<0)return n.length;t=f+1}let o=n.indexOf(`
`,t);return t+c(n.slice(t,o<0?n.length:o),Math.max(1,r))}function l(n,e){let r=u(n,e),t=u(n,{line:e.endLine,column:e.endColumn});return{from:r,to:Math.max(r,t),text:e.text}}export{u as a,l as b};
