function l(n){return n.replace(/\r\n?/g,`
`)}function f(n,e){let r=0,t=e-1;for(let i of n){if(t<=0)break;t-=1,r+=i.length}return r}function u(n,{line:e,column:r}){let t=0;for(let o=1;o<e;o+=1){let s=n.indexOf(`
`,t);if(s<0)return n.length;t=s+1}let i=n.indexOf(`
`,t);return t+f(n.slice(t,i<0?n.length:i),Math.max(1,r))}function c(n,e){let r=u(n,e),t=u(n,{line:e.endLine,column:e.endColumn});return{from:r,to:Math.max(r,t),text:e.text}}function m(n,e){let r=n.split(`
`),t=e.split(`
`).findIndex((i,o)=>i!==r[o]);return t<0?null:t+1}export{l as a,u as b,c,m as d};
